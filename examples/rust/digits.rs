// Recognise handwritten digits from Rust, over tvm-ffi's C ABI: the library exported from examples/digits.py, and
// images from a file of floats, 64 each. Prints one digit and its probability a line.
//
//     rustc digits.rs -L native=<lib> -l dylib=tvm_ffi -C link-arg=-Wl,-rpath,<lib>   (<lib>: tvm-ffi-config --libdir)
//     digits digits.so images.bin

use std::ffi::{c_char, c_int, c_void, CString};
use std::{env, fs, process, ptr, slice};

const DL_TENSOR: i32 = 7; // the kinds of values, as tvm/ffi/c_api.h has them
const TENSOR: i32 = 70;
const ARRAY: i32 = 71;
const HEADER: usize = 24; // what stands before the fields of an object

#[repr(C)]
#[derive(Clone, Copy)]
struct Any {
    kind: i32,
    padding: u32,
    object: *const u8,
}

#[repr(C)]
struct DLTensor {
    data: *mut c_void,
    device_type: i32,
    device_id: i32,
    ndim: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *const i64,
    strides: *const i64,
    byte_offset: u64,
}

#[repr(C)]
struct Sequence {
    data: *const Any,
    size: i64,
}

#[repr(C)]
struct Text {
    data: *const u8,
    size: usize,
}

type Function = unsafe extern "C" fn(*mut c_void, *const Any, i32, *mut Any) -> c_int;

extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    fn TVMFFIErrorMoveFromRaised(error: *mut *const u8);
    fn TVMFFIObjectDecRef(object: *const u8) -> c_int;
}

/// The kind and the message of the error that a call has left.
unsafe fn raised() -> String {
    let mut error: *const u8 = ptr::null();
    TVMFFIErrorMoveFromRaised(&mut error);
    let texts = slice::from_raw_parts(error.add(HEADER) as *const Text, 2);
    let shown = |text: &Text| String::from_utf8_lossy(slice::from_raw_parts(text.data, text.size)).into_owned();
    let said = format!("{}: {}", shown(&texts[0]), shown(&texts[1]));
    TVMFFIObjectDecRef(error);
    said
}

/// The function of a library. The library stays loaded.
unsafe fn function(path: &str, name: &str) -> Result<Function, String> {
    let (path, name) = (CString::new(path).unwrap(), CString::new(format!("__tvm_ffi_{name}")).unwrap());
    let library = dlopen(path.as_ptr(), 2);
    let symbol = if library.is_null() { library } else { dlsym(library, name.as_ptr()) };
    if symbol.is_null() {
        return Err(format!("OSError: {path:?} has no {name:?}"));
    }
    Ok(std::mem::transmute::<*mut c_void, Function>(symbol))
}

/// The elements of a tensor in a result.
unsafe fn elements<T>(value: &Any) -> &[T] {
    assert_eq!(value.kind, TENSOR);
    let tensor = &*(value.object.add(HEADER) as *const DLTensor);
    assert_eq!(tensor.bits as usize, 8 * size_of::<T>());
    let count: i64 = slice::from_raw_parts(tensor.shape, tensor.ndim as usize).iter().product();
    if count == 0 {
        return &[];
    }
    slice::from_raw_parts((tensor.data as *const u8).add(tensor.byte_offset as usize) as *const T, count as usize)
}

fn recognise(library: &str, file: &str) -> Result<(), String> {
    let bytes = fs::read(file).map_err(|error| error.to_string())?;
    let mut images: Vec<f32> = bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
    let shape = [(images.len() / 64) as i64, 1, 8, 8];
    let tensor = DLTensor {
        data: images.as_mut_ptr() as *mut c_void,
        device_type: 1,
        device_id: 0,
        ndim: 4,
        code: 2,
        bits: 32,
        lanes: 1,
        shape: shape.as_ptr(),
        strides: ptr::null(),
        byte_offset: 0,
    };
    let argument = Any { kind: DL_TENSOR, padding: 0, object: &tensor as *const DLTensor as *const u8 };
    let mut result = Any { kind: 0, padding: 0, object: ptr::null() };
    unsafe {
        let main = function(library, "main")?;
        if main(ptr::null_mut(), &argument, 1, &mut result) != 0 {
            return Err(raised());
        }
        assert_eq!(result.kind, ARRAY);
        let tuple = &*(result.object.add(HEADER) as *const Sequence);
        let fields = slice::from_raw_parts(tuple.data, tuple.size as usize);
        let (probabilities, digits) = (elements::<f32>(&fields[0]), elements::<i64>(&fields[1]));
        for (row, &digit) in probabilities.chunks_exact(10).zip(digits) {
            println!("{} {:.4}", digit, row[digit as usize]);
        }
        TVMFFIObjectDecRef(result.object);
    }
    Ok(())
}

fn main() {
    let arguments: Vec<String> = env::args().collect();
    if arguments.len() != 3 {
        eprintln!("usage: digits digits.so images.bin");
        process::exit(2);
    }
    if let Err(error) = recognise(&arguments[1], &arguments[2]) {
        eprintln!("{error}");
        process::exit(1);
    }
}
