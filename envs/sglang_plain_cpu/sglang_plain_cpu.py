"""SGLang's entry point for the platform `plain_cpu`; imports nothing, because every SGLang process loads it first."""


def activate() -> str:
    """The platform's class, as SGLang wants it named."""
    return "sglang_plain_cpu_platform:PlainCpuPlatform"
