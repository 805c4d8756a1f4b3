# The run's numbers beside the paper's, and the paper's claims as tests.
rule comparison:
    input:
        unpack(inputs.reported),
    output:
        paths.comparison(".csv"),
        paths.comparison(".md"),
    log:
        paths.log("comparison", "all"),
    params:
        settings=settings_of("comparison"),
    shell:
        job("comparison")


rule claims:
    input:
        unpack(inputs.reported),
    output:
        paths.claims(".csv"),
        paths.claims(".md"),
    log:
        paths.log("claims", "all"),
    params:
        settings=settings_of("claims"),
    shell:
        job("claims")
