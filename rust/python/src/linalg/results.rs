//! numpy's named tuples, and the closed sets of options.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyString, PyTuple, PyType};
use treadle_core::{Error, ErrorCode};

use crate::errors::raise;

/// The classes of the results of `numpy.linalg`.
struct Classes {
    svd: Py<PyType>,
    qr: Py<PyType>,
    eigh: Py<PyType>,
    eig: Py<PyType>,
    slogdet: Py<PyType>,
}

/// Which of them.
#[derive(Clone, Copy)]
pub(super) enum Named {
    Svd,
    Qr,
    Eigh,
    Eig,
    Slogdet,
}

/// The named tuple of numpy's function of that name.
pub(super) fn named<'py>(
    py: Python<'py>,
    which: Named,
    fields: impl IntoPyObject<'py, Target = PyTuple, Output = Bound<'py, PyTuple>, Error = PyErr>,
) -> PyResult<Bound<'py, PyAny>> {
    static CLASSES: PyOnceLock<Classes> = PyOnceLock::new();
    let classes = CLASSES.get_or_try_init(py, || {
        // The classes have no public name; pickles find them here. Where they move, numpy's functions return them.
        let home = PyModule::import(py, "numpy.linalg._linalg");
        let class = |name: &str, function: &str| {
            if let Ok(home) = &home
                && let Ok(class) = home.getattr(name)
            {
                return Ok(class.cast_into::<PyType>()?.unbind());
            }
            let numpy = PyModule::import(py, "numpy")?;
            let one = numpy.call_method1("ones", ((1, 1),))?;
            PyResult::Ok(
                numpy
                    .getattr("linalg")?
                    .call_method1(function, (one,))?
                    .get_type()
                    .unbind(),
            )
        };
        PyResult::Ok(Classes {
            svd: class("SVDResult", "svd")?,
            qr: class("QRResult", "qr")?,
            eigh: class("EighResult", "eigh")?,
            eig: class("EigResult", "eig")?,
            slogdet: class("SlogdetResult", "slogdet")?,
        })
    })?;
    let class = match which {
        Named::Svd => &classes.svd,
        Named::Qr => &classes.qr,
        Named::Eigh => &classes.eigh,
        Named::Eig => &classes.eig,
        Named::Slogdet => &classes.slogdet,
    };
    // The constructor of a named tuple is a Python function; what it calls is not.
    static NEW: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let new = NEW.get_or_try_init(py, || {
        PyResult::Ok(py.get_type::<PyTuple>().getattr("__new__")?.unbind())
    })?;
    new.bind(py).call1((class.bind(py), fields.into_pyobject(py)?))
}

/// The text of an option, for `from_name`; anything else lists what is valid.
pub(super) fn option_text<'a>(
    object: &'a Bound<'_, PyAny>,
    operation: &'static str,
    name: &'static str,
    valid: &str,
) -> PyResult<&'a str> {
    if let Ok(text) = object.cast::<PyString>()
        && let Ok(text) = text.to_str()
    {
        return Ok(text);
    }
    let error = Error::new(
        ErrorCode::Argument,
        format!("{name} is {}; valid are {valid}", object.repr()?),
    );
    Err(raise(
        object.py(),
        error.with("argument", name).in_operation(operation),
    ))
}

/// A result as it is, or the numpy scalar that a zero-dimensional one holds.
pub(super) fn scalar(array: Bound<'_, PyAny>, single: bool) -> PyResult<Bound<'_, PyAny>> {
    if single {
        array.get_item(PyTuple::empty(array.py()))
    } else {
        Ok(array)
    }
}

/// The two parts of an argument such as `(lu, piv)`.
pub(super) fn pair<'py>(
    object: &Bound<'py, PyAny>,
    operation: &'static str,
    name: &'static str,
    parts: &str,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    if let Ok(pair) = object.extract::<(Bound<'py, PyAny>, Bound<'py, PyAny>)>() {
        return Ok(pair);
    }
    if let Ok(list) = object.cast::<pyo3::types::PyList>()
        && list.len() == 2
    {
        return Ok((list.get_item(0)?, list.get_item(1)?));
    }
    let error = Error::new(
        ErrorCode::Argument,
        format!("{name} is a {}; give the pair {parts}", object.get_type().name()?),
    );
    Err(raise(
        object.py(),
        error.with("argument", name).in_operation(operation),
    ))
}

/// `trans=`, as a number or as a letter.
pub(super) fn form_of(
    object: Option<&Bound<'_, PyAny>>,
    operation: &'static str,
) -> PyResult<treadle_linalg::Form> {
    use treadle_linalg::Form;
    let Some(object) = object else {
        return Ok(Form::Plain);
    };
    let number = object.extract::<i64>().ok();
    let text = object.cast::<PyString>().ok();
    match (number, text.as_ref().and_then(|text| text.to_str().ok())) {
        (Some(0), _) | (_, Some("N")) => Ok(Form::Plain),
        (Some(1), _) | (_, Some("T")) => Ok(Form::Transposed),
        (Some(2), _) | (_, Some("C")) => Ok(Form::Adjoint),
        _ => {
            let error = Error::new(
                ErrorCode::Argument,
                format!("trans is {}; valid are 0, 1, 2, 'N', 'T' and 'C'", object.repr()?),
            );
            Err(raise(
                object.py(),
                error.with("argument", "trans").in_operation(operation),
            ))
        }
    }
}

/// `gauge=`.
pub(super) fn gauge_of(
    object: Option<&Bound<'_, PyAny>>,
    operation: &'static str,
) -> PyResult<treadle_linalg::Gauge> {
    let Some(object) = object else {
        return Ok(treadle_linalg::Gauge::Raw);
    };
    let text = option_text(object, operation, "gauge", "'raw' and 'canonical'")?;
    treadle_linalg::Gauge::from_name(text).map_err(|error| raise(object.py(), error.in_operation(operation)))
}

/// Checks an `out` against the array that the result is going to be.
pub(super) fn check_out<'py>(
    out: &Bound<'py, PyAny>,
    result: &Bound<'py, PyAny>,
    operands: &[&Bound<'py, PyAny>],
    operation: &'static str,
) -> PyResult<()> {
    let py = out.py();
    let arrays = PyModule::import(py, "treadle._arrays")?;
    arrays.call_method1(
        "check_out",
        (out, result.getattr("shape")?, operands.to_vec(), operation),
    )?;
    let (given, wanted) = (out.getattr("dtype")?, result.getattr("dtype")?);
    if given.eq(&wanted)? {
        return Ok(());
    }
    let error = Error::new(
        ErrorCode::DType,
        format!("out has dtype {given} and the result {wanted}; give an array of the result's dtype"),
    )
    .with("expected", wanted.to_string())
    .with("actual", given.to_string());
    Err(raise(py, error.in_operation(operation)))
}

/// Copies a result to its `out`.
pub(super) fn copy_out<'py>(out: &Bound<'py, PyAny>, result: &Bound<'py, PyAny>) -> PyResult<()> {
    let py = out.py();
    PyModule::import(py, "numpy")?.call_method1(intern!(py, "copyto"), (out, result))?;
    Ok(())
}

/// Refuses two outputs that share an element: the later one would overwrite the earlier.
pub(super) fn lie_apart(targets: &[Bound<'_, PyAny>], operation: &'static str) -> PyResult<()> {
    for (position, one) in targets.iter().enumerate() {
        for other in &targets[..position] {
            let arrays = PyModule::import(one.py(), "treadle._arrays")?;
            if arrays.call_method1("shares_element", (one, other))?.is_truthy()? {
                let error = Error::new(
                    ErrorCode::Aliasing,
                    "two arrays of out share memory; give each result an array of its own",
                );
                return Err(raise(one.py(), error.in_operation(operation)));
            }
        }
    }
    Ok(())
}

/// A yes or no, from whatever is true or false, as numpy's functions take it.
#[derive(Clone, Copy)]
pub(super) struct Flag(pub(super) bool);

impl<'a, 'py> FromPyObject<'a, 'py> for Flag {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        Ok(Flag(object.is_truthy()?))
    }
}
