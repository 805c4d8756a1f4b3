"""Whether Slurm knows the site's account, asked once before a run.

Snakemake's executor would ask before each submission; `pipeline/slurm_answers.py` leaves that out.
"""

from __future__ import annotations

import logging

from stair.config.resolve import ConfigError
from stair.config.site import SITE, Site


def check_account(site: Site) -> None:
    """Asks by the executor's own function.

    Raises:
        ConfigError: the account is none of this user's, or accounting does not answer.
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
                f"{SITE}: account: {said}; name another one, set null where Slurm keeps no accounts, or start again "
                "when accounting answers"
            ) from None
