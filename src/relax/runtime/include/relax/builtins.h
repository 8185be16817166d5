// Shared by the headers that register builtins: calls by name, arguments of builtins, and errors.
#ifndef RELAX_BUILTINS_H_
#define RELAX_BUILTINS_H_

#include <relax/library.h>

#include <cstdint>
#include <string>
#include <vector>

namespace relax {

using relax_library::Error;
using relax_library::Tensor;
using relax_library::Value;
using Values = std::vector<Value>;

inline std::string text(int64_t number) { return std::to_string(number); }

inline std::string dims(const std::vector<int64_t>& sizes) {
  std::string out = "(";
  for (size_t i = 0; i < sizes.size(); ++i) out += (i ? ", " : "") + text(sizes[i]);
  return out + (sizes.size() == 1 ? ",)" : ")");
}

[[noreturn]] inline void refuse(const std::string& message) { throw Error("ValueError", message); }
[[noreturn]] inline void fail_type(const std::string& message) { throw Error("TypeError", message); }

// Call a packed function of the process by name.
template <typename... Args>
Value call(const std::string& name, const Args&... args) {
  return Value::global(name).apply({Value(args)...});
}

namespace detail {

inline int64_t integer(const Value& value, const std::string& subject) {
  if (value.kind() != kTVMFFIInt) fail_type("expected an integer as " + subject);
  return value.integer();
}

inline std::vector<int64_t> integers(const Value& value, const std::string& subject) {
  if (value.kind() == kTVMFFIShape) return value.sizes();
  if (value.kind() != kTVMFFIArray) fail_type("expected a shape as " + subject);
  std::vector<int64_t> numbers;
  for (const Value& field : value.fields()) numbers.push_back(integer(field, subject));
  return numbers;
}

inline double number(const Value& value, const std::string& subject) {
  if (value.kind() == kTVMFFIFloat) return value.real();
  if (value.kind() != kTVMFFIInt) fail_type("expected a number as " + subject);
  return static_cast<double>(value.integer());
}

// The numbers of a tuple, or of a tensor of float32 or float64.
inline std::vector<double> numbers(const Value& value, const std::string& subject) {
  std::vector<double> out;
  if (value.kind() == kTVMFFIArray) {
    for (const Value& field : value.fields()) out.push_back(number(field, subject));
    return out;
  }
  if (value.kind() != kTVMFFITensor) fail_type("expected a tensor as " + subject);
  Tensor tensor(value);
  DLDataType dtype = tensor.dl().dtype;
  if (!tensor.is_compact() || dtype.code != kDLFloat || (dtype.bits != 32 && dtype.bits != 64))
    fail_type("expected a compact tensor of float32 or float64 as " + subject);
  for (int64_t i = 0; i < tensor.size(); ++i)
    out.push_back(dtype.bits == 32 ? static_cast<double>(tensor.data<float>()[i]) : tensor.data<double>()[i]);
  return out;
}

// Register a builtin that takes from `least` to `most` arguments.
inline void builtin(const std::string& name, size_t least, size_t most, relax_library::Packed function) {
  std::string whole = "vm.builtin." + name;
  relax_library::register_function(whole, [=](const Values& args) {
    if (args.size() < least || args.size() > most)
      fail_type(whole + " got " + text(static_cast<int64_t>(args.size())) + " arguments, expected " +
                text(static_cast<int64_t>(least)) + (most > least ? " or more" : ""));
    return function(args);
  });
}

}  // namespace detail

}  // namespace relax

#endif  // RELAX_BUILTINS_H_
