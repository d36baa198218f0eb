"""Models of scikit-learn and XGBoost, written by their converters: against onnxruntime."""

import functools
import warnings

import numpy as np
import pytest
import troupe

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
sklearn = pytest.importorskip("sklearn")
skl2onnx = pytest.importorskip("skl2onnx")

from skl2onnx.common.data_types import StringTensorType  # noqa: E402
from sklearn import compose, ensemble, impute, linear_model, pipeline, preprocessing, svm, tree  # noqa: E402

ROWS = 120


@functools.cache
def features():
    return np.random.default_rng(1).normal(size=(ROWS, 6)).astype(np.float32)


@functools.cache
def with_gaps():
    x = features().copy()
    x[np.random.default_rng(2).random(x.shape) < 0.1] = np.nan
    return x


def classes(count):
    x = features()
    return np.digitize(x[:, 0] + x[:, 1] * x[:, 2], [0] if count == 2 else [-0.5, 0.5])


def words():
    return np.array(["red", "green", "blue"])[classes(3)]


def targets():
    x = features()
    return 3 * x[:, 0] - x[:, 1] ** 2 + np.sin(x[:, 2])


@pytest.fixture(autouse=True)
def plain_numbers(monkeypatch):
    """Newer versions of protobuf refuse numbers of NumPy and bools, which converters write as attributes."""
    made = onnx.helper.make_attribute

    def plain(value):
        if isinstance(value, np.ndarray):
            value = value.tolist()
        if isinstance(value, list | tuple):
            return [plain(v) for v in value]
        if isinstance(value, np.generic):
            value = value.item()
        return int(value) if isinstance(value, bool) else value

    monkeypatch.setattr(onnx.helper, "make_attribute", lambda key, value, *a, **k: made(key, plain(value), *a, **k))


def plain_strings(value):
    """Ours are bytes."""
    decode = np.vectorize(lambda item: item.decode() if isinstance(item, bytes) else item, otypes=[object])
    return decode(value) if np.asarray(value).dtype.kind in "OS" else np.asarray(value)


def expect_same(model, x, path):
    """All outputs of the model are those of onnxruntime; maps become columns."""
    onnx.save(model, path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    ours = troupe.import_onnx(path, threads=1)
    for rows in (1, ROWS):
        feeds = {session.get_inputs()[0].name: x[:rows]}
        found = ours.run(feeds)
        for output, wanted in zip(session.get_outputs(), session.run(None, feeds), strict=True):
            value = found[output.name]
            if isinstance(wanted, list):
                assert ours.classes[output.name] == list(wanted[0])
                wanted = np.array([[row[c] for c in ours.classes[output.name]] for row in wanted])
            if wanted.dtype.kind == "f":
                np.testing.assert_allclose(value, wanted, rtol=1e-5, atol=1e-5, err_msg=output.name)
            else:
                assert plain_strings(value).tolist() == wanted.tolist(), output.name


def check(estimator, x, y, path, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator.fit(x, y)
        expect_same(skl2onnx.to_onnx(estimator, x[:1], **options), x, path)


CLASSIFIERS = {
    "RandomForest": lambda: ensemble.RandomForestClassifier(10, max_depth=5, random_state=0),
    "GradientBoosting": lambda: ensemble.GradientBoostingClassifier(n_estimators=8, random_state=0),
    "HistGradientBoosting": lambda: ensemble.HistGradientBoostingClassifier(max_iter=5, random_state=0),
    "DecisionTree": lambda: tree.DecisionTreeClassifier(max_depth=4, random_state=0),
    "LogisticRegression": lambda: linear_model.LogisticRegression(),
    "LinearSVC": lambda: svm.LinearSVC(),
    "SVC": lambda: svm.SVC(),
}
LABELS = {"two classes": lambda: classes(2), "three classes": lambda: classes(3), "words": words}


@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classifiers(name, labels, tmp_path):
    check(CLASSIFIERS[name](), features(), LABELS[labels](), tmp_path / "model.onnx")


def test_probabilities_as_a_tensor(tmp_path):
    forest = CLASSIFIERS["RandomForest"]()
    check(forest, features(), words(), tmp_path / "model.onnx", options={"zipmap": False})
    model = troupe.import_onnx(tmp_path / "model.onnx")
    assert model.classes == {"probabilities": ["blue", "green", "red"]}


REGRESSORS = {
    "RandomForest": lambda: ensemble.RandomForestRegressor(10, max_depth=5, random_state=0),
    "GradientBoosting": lambda: ensemble.GradientBoostingRegressor(n_estimators=8, random_state=0),
    "HistGradientBoosting": lambda: ensemble.HistGradientBoostingRegressor(max_iter=5, random_state=0),
    "DecisionTree": lambda: tree.DecisionTreeRegressor(random_state=0),
    "LinearRegression": lambda: linear_model.LinearRegression(),
    "SVR": lambda: svm.SVR(),
    "SVR, polynomial": lambda: svm.SVR(kernel="poly"),
    "SVR, sigmoid": lambda: svm.SVR(kernel="sigmoid"),
    "OneClassSVM": lambda: svm.OneClassSVM(),
}


@pytest.mark.parametrize("name", REGRESSORS)
def test_regressors(name, tmp_path):
    check(REGRESSORS[name](), features(), targets(), tmp_path / "model.onnx")


def test_several_targets(tmp_path):
    y = np.stack([targets(), targets() ** 2], axis=1)
    check(REGRESSORS["RandomForest"](), features(), y, tmp_path / "forest.onnx")
    check(REGRESSORS["LinearRegression"](), features(), y, tmp_path / "linear.onnx")


PREPARATIONS = {
    "StandardScaler": preprocessing.StandardScaler,
    "MinMaxScaler": preprocessing.MinMaxScaler,
    "Normalizer, L1": lambda: preprocessing.Normalizer("l1"),
    "Normalizer, L2": lambda: preprocessing.Normalizer("l2"),
    "Binarizer": lambda: preprocessing.Binarizer(threshold=0.2),
}


@pytest.mark.parametrize("name", PREPARATIONS)
def test_pipelines(name, tmp_path):
    steps = pipeline.make_pipeline(PREPARATIONS[name](), linear_model.LogisticRegression())
    check(steps, features(), words(), tmp_path / "model.onnx")


def test_gaps_are_filled(tmp_path):
    steps = pipeline.make_pipeline(
        impute.SimpleImputer(), preprocessing.StandardScaler(), linear_model.LogisticRegression()
    )
    check(steps, with_gaps(), classes(3), tmp_path / "filled.onnx")
    check(CLASSIFIERS["HistGradientBoosting"](), with_gaps(), classes(3), tmp_path / "model.onnx")


def test_columns_are_prepared_apart(tmp_path):
    columns = compose.make_column_transformer(
        (preprocessing.StandardScaler(), [0, 1, 2]), (preprocessing.Normalizer(), [3, 4]), ("passthrough", [5])
    )
    check(pipeline.make_pipeline(columns, CLASSIFIERS["GradientBoosting"]()), features(), classes(3),
          tmp_path / "model.onnx")


def test_categories_of_numbers_and_words(tmp_path):
    numbers = np.random.default_rng(3).integers(0, 4, (ROWS, 2))
    steps = pipeline.make_pipeline(
        preprocessing.OneHotEncoder(handle_unknown="ignore"), linear_model.LogisticRegression()
    )
    check(steps, numbers, classes(3), tmp_path / "numbers.onnx")
    texts = np.array(["a", "b", "c", "d"], object)[numbers]
    for encoder in (preprocessing.OneHotEncoder(), preprocessing.OrdinalEncoder()):
        steps = pipeline.make_pipeline(encoder, CLASSIFIERS["RandomForest"]()).fit(texts, classes(3))
        model = skl2onnx.to_onnx(steps, initial_types=[("X", StringTensorType([None, 2]))])
        expect_same(model, texts, tmp_path / "words.onnx")


@pytest.mark.parametrize("name", ["two classes", "three classes", "regression", "logistic"])
def test_xgboost(name, tmp_path):
    xgboost = pytest.importorskip("xgboost")
    onnxmltools = pytest.importorskip("onnxmltools")
    from onnxmltools.convert.common.data_types import FloatTensorType

    options = {"n_estimators": 10, "max_depth": 4}
    model, y = {
        "two classes": lambda: (xgboost.XGBClassifier(**options), classes(2)),
        "three classes": lambda: (xgboost.XGBClassifier(**options), classes(3)),
        "regression": lambda: (xgboost.XGBRegressor(**options), targets()),
        "logistic": lambda: (xgboost.XGBRegressor(objective="reg:logistic", **options), classes(2)),
    }[name]()
    x = with_gaps()
    model.fit(x, y)
    converted = onnxmltools.convert_xgboost(model, initial_types=[("x", FloatTensorType([None, x.shape[1]]))])
    expect_same(converted, x, tmp_path / "model.onnx")


def test_the_tests_of_onnx_pass(tmp_path):
    """Those of ai.onnx.ml, which Debian's package of test data lacks."""
    node = pytest.importorskip("onnx.backend.test.case.node")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = [c for c in node.collect_testcases(None) if c.name.startswith("test_ai_onnx_ml_")]
    assert len(cases) >= 8
    for case in cases:
        path = tmp_path / f"{case.name}.onnx"
        onnx.save(case.model, path)
        model = troupe.import_onnx(path, threads=1)
        for inputs, outputs in case.data_sets:
            found = model.run(dict(zip(model.inputs, inputs, strict=True)))
            for value, wanted in zip(found.values(), outputs, strict=True):
                if wanted.dtype.kind in "fi":
                    np.testing.assert_allclose(value, wanted, rtol=1e-5, err_msg=case.name)
                else:
                    assert np.asarray(value).tolist() == wanted.tolist(), case.name
