// A library exported by relax, called from C++: values, tensors, functions and errors over tvm-ffi's C ABI.
//
//     relax_library::Library library("./model.so");
//     auto x = relax_library::Tensor::zeros<float>({8, 784});
//     relax_library::Tensor y = library["main"](x);
//
// It needs <tvm/ffi/c_api.h> and libtvm_ffi.so, which the Python package apache-tvm-ffi brings
// (`tvm-ffi-config --cxxflags --ldflags --libs`), and nothing of relax.
#ifndef RELAX_LIBRARY_H_
#define RELAX_LIBRARY_H_

#include <dlfcn.h>
#include <tvm/ffi/c_api.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <numeric>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace relax_library {

// An error of a function: its kind ("ValueError") and its message.
class Error : public std::runtime_error {
 public:
  Error(std::string kind, const std::string& message) : std::runtime_error(message), kind_(std::move(kind)) {}
  const std::string& kind() const { return kind_; }

 private:
  std::string kind_;
};

// Throw the error that a call of the C ABI left behind.
inline void check(int status) {
  if (status == 0) return;
  TVMFFIObjectHandle error = nullptr;
  TVMFFIErrorMoveFromRaised(&error);
  if (error == nullptr) throw Error("RuntimeError", "a call failed and did not say why");
  auto* cell = reinterpret_cast<TVMFFIErrorCell*>(static_cast<char*>(error) + sizeof(TVMFFIObject));
  std::string kind(cell->kind.data, cell->kind.size), message(cell->message.data, cell->message.size);
  TVMFFIObjectDecRef(error);
  throw Error(kind, message);
}

// A value that is passed to functions and returned by them; it owns the object in it.
class Value {
 public:
  Value() : any_{} {}
  // A number or a truth value, of any type of C++.
  template <typename T, typename = std::enable_if_t<std::is_arithmetic<T>::value>>
  Value(T number) : any_{} {
    if constexpr (std::is_floating_point<T>::value) {
      any_.type_index = kTVMFFIFloat, any_.v_float64 = static_cast<double>(number);
    } else {
      any_.type_index = std::is_same<T, bool>::value ? kTVMFFIBool : kTVMFFIInt;
      any_.v_int64 = static_cast<int64_t>(number);
      if (std::is_unsigned<T>::value && any_.v_int64 < 0)
        throw Error("OverflowError", "the number does not fit into 64 bits with a sign");
    }
  }
  Value(const std::string& text) : any_{} {
    TVMFFIByteArray bytes{text.data(), text.size()};
    check(TVMFFIStringFromByteArray(&bytes, &any_));
  }
  Value(const char* text) : Value(std::string(text)) {}
  template <typename T, typename = std::enable_if_t<!std::is_same<T, char>::value>>
  Value(T*) = delete;  // no pointer is a truth value
  Value(const Value& other) : any_(other.any_) {
    if (is_object()) TVMFFIObjectIncRef(any_.v_obj);
  }
  Value(Value&& other) noexcept : any_(std::exchange(other.any_, TVMFFIAny{})) {}
  Value& operator=(Value other) noexcept {
    std::swap(any_, other.any_);
    return *this;
  }
  ~Value() {
    if (is_object()) TVMFFIObjectDecRef(any_.v_obj);
  }

  // The value that a result or an argument of the C ABI holds: `owned` ones become this one's, others are shared.
  static Value owned(TVMFFIAny any) {
    Value value;
    value.any_ = any;
    return value;
  }
  static Value shared(const TVMFFIAny& any) {
    TVMFFIAny copy{};
    check(TVMFFIAnyViewToOwnedAny(&any, &copy));
    return owned(copy);
  }

  // The packed function of the process with this name.
  static Value global(const std::string& name) {
    TVMFFIByteArray bytes{name.data(), name.size()};
    TVMFFIAny any{};
    void* function = nullptr;
    check(TVMFFIFunctionGetGlobal(&bytes, &function));
    if (function == nullptr) throw Error("ValueError", "there is no packed function " + name);
    any.type_index = kTVMFFIFunction;
    any.v_obj = static_cast<TVMFFIObject*>(function);
    return owned(any);
  }

  // Call a packed function with the values of a list.
  Value apply(const std::vector<Value>& args) const {
    TVMFFIObject* function = expect(kTVMFFIFunction, "a function").v_obj;
    std::vector<TVMFFIAny> views;
    for (const Value& arg : args) views.push_back(arg.any_);
    TVMFFIAny result{};
    check(TVMFFIFunctionCall(function, views.data(), static_cast<int32_t>(views.size()), &result));
    return owned(result);
  }

  // A shape, and a tuple of values.
  static Value shape(const std::vector<int64_t>& sizes) {
    return global("ffi.Shape").apply(std::vector<Value>(sizes.begin(), sizes.end()));
  }
  static Value tuple(const std::vector<Value>& fields) { return global("ffi.Array").apply(fields); }

  const TVMFFIAny& any() const { return any_; }
  int32_t kind() const { return any_.type_index; }
  bool is_none() const { return any_.type_index == kTVMFFINone; }
  int64_t integer() const { return expect(kTVMFFIInt, "an int").v_int64; }
  double real() const { return expect(kTVMFFIFloat, "a float").v_float64; }
  bool truth() const { return expect(kTVMFFIBool, "a bool").v_int64 != 0; }

  // The characters of a string.
  std::string text() const {
    if (any_.type_index == kTVMFFISmallStr) {
      TVMFFIByteArray bytes = TVMFFISmallBytesGetContentByteArray(&any_);
      return {bytes.data, bytes.size};
    }
    auto* bytes = reinterpret_cast<const TVMFFIByteArray*>(object(kTVMFFIStr, "a string"));
    return {bytes->data, bytes->size};
  }
  bool is_text() const { return any_.type_index == kTVMFFISmallStr || any_.type_index == kTVMFFIStr; }

  // The sizes of a shape.
  std::vector<int64_t> sizes() const {
    auto* cell = reinterpret_cast<const TVMFFIShapeCell*>(object(kTVMFFIShape, "a shape"));
    return {cell->data, cell->data + cell->size};
  }

  // The fields of a tuple.
  std::vector<Value> fields() const {
    auto* cell = reinterpret_cast<const TVMFFISeqCell*>(object(kTVMFFIArray, "a tuple"));
    auto* items = static_cast<const TVMFFIAny*>(cell->data);
    std::vector<Value> values;
    for (int64_t i = 0; i < cell->size; ++i) values.push_back(shared(items[i]));
    return values;
  }

  // Give the value away, to a result of the C ABI.
  TVMFFIAny release() { return std::exchange(any_, TVMFFIAny{}); }

 protected:
  bool is_object() const { return any_.type_index >= kTVMFFIStaticObjectBegin; }
  const TVMFFIAny& expect(int32_t kind, const char* what) const {
    if (any_.type_index != kind) throw Error("TypeError", std::string("the value is not ") + what);
    return any_;
  }
  const char* object(int32_t kind, const char* what) const {
    return reinterpret_cast<const char*>(expect(kind, what).v_obj) + sizeof(TVMFFIObject);
  }

 private:
  TVMFFIAny any_;
};

template <typename T>
constexpr DLDataType dtype_of() {
  static_assert(std::is_arithmetic<T>::value, "elements are numbers");
  auto code = std::is_same<T, bool>::value       ? kDLBool
              : std::is_floating_point<T>::value ? kDLFloat
              : std::is_signed<T>::value         ? kDLInt
                                                 : kDLUInt;
  return DLDataType{static_cast<uint8_t>(code), static_cast<uint8_t>(8 * sizeof(T)), 1};
}

// A compact tensor in host memory.
class Tensor : public Value {
 public:
  Tensor(Value value) : Value(std::move(value)) { object(kTVMFFITensor, "a tensor"); }

  template <typename T>
  static Tensor zeros(std::vector<int64_t> shape) {
    Tensor made = uninitialised(dtype_of<T>(), std::move(shape));
    std::memset(made.dl().data, 0, static_cast<size_t>(made.size()) * sizeof(T));
    return made;
  }

  // A tensor of a dtype of whole bytes, in new memory.
  static Tensor uninitialised(DLDataType dtype, std::vector<int64_t> shape) {
    size_t bytes = dtype.bits / 8u;
    for (int64_t size : shape) {
      if (size < 0) throw Error("ValueError", "a tensor cannot have a negative dimension");
      if (__builtin_mul_overflow(bytes, static_cast<size_t>(size), &bytes) || bytes > SIZE_MAX / 4)
        throw Error("MemoryError", "a tensor has too many elements");
    }
    std::shared_ptr<void> memory(std::aligned_alloc(64, bytes / 64 * 64 + 64), std::free);
    if (memory == nullptr) throw Error("MemoryError", "a tensor of " + std::to_string(bytes) + " bytes cannot be made");
    return over(memory.get(), memory, dtype, std::move(shape));
  }

  // A tensor over memory that `keeper` keeps: `data` has the compact elements, and is aligned to 64 bytes.
  static Tensor over(void* data, std::shared_ptr<void> keeper, DLDataType dtype, std::vector<int64_t> shape) {
    auto* owner = new Owner;
    owner->keeper = std::move(keeper);
    owner->shape = std::move(shape);
    owner->strides.assign(owner->shape.size(), 1);
    int64_t count = 1;
    for (size_t i = owner->shape.size(); i-- > 0; count *= owner->shape[i]) owner->strides[i] = count;
    owner->managed.dl_tensor = DLTensor{data,
                                        DLDevice{kDLCPU, 0},
                                        static_cast<int32_t>(owner->shape.size()),
                                        dtype,
                                        owner->shape.data(),
                                        owner->strides.data(),
                                        0};
    owner->managed.manager_ctx = owner;
    owner->managed.deleter = [](DLManagedTensor* self) { delete static_cast<Owner*>(self->manager_ctx); };
    TVMFFIAny any{};
    void* handle = nullptr;
    check(TVMFFITensorFromDLPack(&owner->managed, 0, 1, &handle));
    any.type_index = kTVMFFITensor;
    any.v_obj = static_cast<TVMFFIObject*>(handle);
    return Tensor(owned(any));
  }

  // The same elements under another shape, which must have as many.
  Tensor view(std::vector<int64_t> shape) const {
    int64_t count = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<int64_t>());
    if (count != size() || !is_compact()) throw Error("ValueError", "the tensor has no view of this shape");
    return over(static_cast<char*>(dl().data) + dl().byte_offset, std::make_shared<Value>(*this), dl().dtype,
                std::move(shape));
  }

  // True if the elements are in host memory one behind the other.
  bool is_compact() const {
    if (dl().device.device_type != kDLCPU) return false;
    int64_t expected = 1;
    for (int32_t i = dl().ndim; i-- > 0; expected *= dl().shape[i])
      if (dl().strides != nullptr && dl().shape[i] != 1 && dl().strides[i] != expected) return size() == 0;
    return true;
  }

  const DLTensor& dl() const { return *reinterpret_cast<const DLTensor*>(object(kTVMFFITensor, "a tensor")); }
  std::vector<int64_t> shape() const { return {dl().shape, dl().shape + dl().ndim}; }
  int64_t size() const {
    return std::accumulate(dl().shape, dl().shape + dl().ndim, int64_t{1}, std::multiplies<int64_t>());
  }

  // The elements; the type must be theirs.
  template <typename T>
  T* data() const {
    DLDataType have = dl().dtype, want = dtype_of<T>();
    if (have.code != want.code || have.bits != want.bits) throw Error("TypeError", "elements have another dtype");
    return reinterpret_cast<T*>(static_cast<char*>(dl().data) + dl().byte_offset);
  }

 private:
  struct Owner {
    DLManagedTensor managed{};
    std::vector<int64_t> shape, strides;
    std::shared_ptr<void> keeper;
  };
};

// A function of a library.
class Function {
 public:
  explicit Function(TVMFFISafeCallType call) : call_(call) {}

  template <typename... Args>
  Value operator()(const Args&... args) const {
    return apply({Value(args)...});
  }

  // Call the function with the values of a list.
  Value apply(const std::vector<Value>& args) const {
    std::vector<TVMFFIAny> values;
    for (const Value& value : args) values.push_back(value.any());
    TVMFFIAny result{};
    check(call_(nullptr, values.data(), static_cast<int32_t>(values.size()), &result));
    return Value::owned(result);
  }

 private:
  TVMFFISafeCallType call_;
};

// An exported library. It stays loaded until the process ends.
class Library {
 public:
  explicit Library(const std::string& path) : path_(path), handle_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) throw Error("OSError", dlerror());
  }
  Function operator[](const std::string& name) const {
    void* symbol = dlsym(handle_, ("__tvm_ffi_" + name).c_str());
    if (symbol == nullptr) throw Error("AttributeError", path_ + " has no function " + name);
    return Function(reinterpret_cast<TVMFFISafeCallType>(symbol));
  }

 private:
  std::string path_;
  void* handle_;
};

using Packed = std::function<Value(const std::vector<Value>&)>;

// Make a function known to the process by name, for the programs that call it.
inline void register_function(const std::string& name, Packed function) {
  auto call = [](void* self, const TVMFFIAny* args, int32_t count, TVMFFIAny* result) -> int {
    try {
      std::vector<Value> values;
      for (int32_t i = 0; i < count; ++i) values.push_back(Value::shared(args[i]));
      *result = (*static_cast<Packed*>(self))(values).release();
      return 0;
    } catch (const Error& error) {
      TVMFFIErrorSetRaisedFromCStr(error.kind().c_str(), error.what());
    } catch (const std::bad_alloc&) {
      TVMFFIErrorSetRaisedFromCStr("MemoryError", "out of memory");
    } catch (const std::exception& error) {
      TVMFFIErrorSetRaisedFromCStr("RuntimeError", error.what());
    }
    return -1;
  };
  void* handle = nullptr;
  auto release = [](void* self) { delete static_cast<Packed*>(self); };
  check(TVMFFIFunctionCreate(new Packed(std::move(function)), call, release, &handle));
  TVMFFIByteArray bytes{name.data(), name.size()};
  int status = TVMFFIFunctionSetGlobal(&bytes, handle, 1);
  TVMFFIObjectDecRef(handle);
  check(status);
}

}  // namespace relax_library

#endif  // RELAX_LIBRARY_H_
