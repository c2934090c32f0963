"""What a service leaves when it is over: a model for each cohort, with the names of the initial one, and the tree."""

from auxo.experiments.outcome_files import write_clients, write_models
from auxo.service.plan import ServicePlan


def write_cohort_models(plan: ServicePlan) -> None:
    """Write the models of all cohorts, as they were last committed.

    Raises:
        OSError: there is no room.
    """
    with plan.store() as store:
        tree = store.read(()).record.state.tree
        write_models(plan.directory, tree, ((leaf, plan.tensors(store.model(leaf))) for leaf in tree.leaves))
        write_clients(plan.directory, [])  # whose they are their clients alone know
