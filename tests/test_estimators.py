"""The scikit-learn door: its own checks, the same model however a stream is cut, classes that turn up, weights, frames, snapshots."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from onkel import KernelClassifier, KernelRegressor, NoveltyDetector

ORDER = "an online learner depends on the order of the rows, and these checks shuffle them; see test_weights_* for what holds"


def expected(estimator):
    return dict.fromkeys(("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"), ORDER)


@parametrize_with_checks([KernelClassifier(), KernelRegressor(), NoveltyDetector()], expected_failed_checks=expected)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
