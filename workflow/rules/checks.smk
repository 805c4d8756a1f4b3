# The protocol's invariants on the data at hand. Tables wait for them.
rule check:
    input:
        unpack(inputs.check),
    output:
        paths.checks,
    log:
        paths.log("checks", "all"),
    params:
        settings=settings_of("check"),
    shell:
        job("check")
