"""Whether Slurm knows the site's account.

Snakemake's executor asks with each submission. A group of jobs that it refuses for its account never ends.
"""

from __future__ import annotations

import logging

from stair.config.resolve import ConfigError
from stair.config.site import SITE, Site


def check_account(site: Site) -> None:
    """Asks as the executor will.

    Raises:
        ConfigError: the executor would refuse the account.
    """
    if site.account is None:
        return
    from snakemake_executor_plugin_slurm.accounts import validate_account  # the executor's package takes a while
    from snakemake_interface_common.exceptions import WorkflowError

    for name in site.account.replace(",", " ").split():
        try:
            validate_account(name, logging.getLogger(__name__))
        except (OSError, WorkflowError) as error:
            said = " ".join(str(error).split())
            raise ConfigError(
                f"{SITE}: account: {said}; name another one, or null where Slurm keeps no accounts"
            ) from None
