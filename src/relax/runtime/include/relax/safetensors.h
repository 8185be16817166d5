// Tensors of a file in the format safetensors: the length of a header in eight bytes, the header in JSON, the elements.
//
//     relax::SafeTensors file("weights.safetensors");
//     file.tensors[0].tensor, file.tensors[0].name, file.metadata.at("vocabulary")
//
// All elements lie in one piece of memory, in the order of the file. What does not fit the format is a ValueError.
#ifndef RELAX_SAFETENSORS_H_
#define RELAX_SAFETENSORS_H_

#include <sys/mman.h>

#include <cctype>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>

#include <relax/builtins.h>

namespace relax {

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

namespace detail {

// A header, read from left to right: objects of strings, arrays of numbers, and what the format has no use for.
class HeaderReader {
 public:
  explicit HeaderReader(const std::string& text) : at_(text.data()), end_(text.data() + text.size()) {}

  [[noreturn]] static void fail() { refuse("the header of the safetensors file is no JSON of that format"); }

  bool next(char wanted) {
    while (at_ < end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\t' || *at_ == '\r')) ++at_;
    if (at_ == end_ || *at_ != wanted) return false;
    return ++at_, true;
  }
  void expect(char wanted) {
    if (!next(wanted)) fail();
  }
  bool at_end() {
    next('\0');
    return at_ == end_;
  }

  std::string string() {
    expect('"');
    std::string out;
    for (; at_ < end_ && *at_ != '"'; ++at_) {
      if (*at_ == '\\') {
        if (++at_ == end_) fail();
        if (*at_ == 'u') {
          character(out);
          continue;
        }
        static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
        const char* found = std::strchr(from, *at_);
        if (*at_ == '\0' || found == nullptr) fail();
        out += to[found - from];
      } else {
        out += *at_;
      }
    }
    expect('"');
    return out;
  }

  int64_t number() {
    next('\0');
    int64_t value = 0;
    const char* start = at_;
    for (; at_ < end_ && *at_ >= '0' && *at_ <= '9'; ++at_)
      if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, *at_ - '0', &value)) fail();
    if (at_ == start) fail();
    return value;
  }

  std::vector<int64_t> numbers() {
    std::vector<int64_t> out;
    expect('[');
    if (next(']')) return out;
    do out.push_back(number());
    while (next(','));
    expect(']');
    return out;
  }

  // Read an object; `field` reads the value of a name.
  template <typename Field>
  void object(Field field) {
    expect('{');
    if (next('}')) return;
    do {
      std::string name = string();
      expect(':');
      field(name);
    } while (next(','));
    expect('}');
  }

 private:
  // A character by its number, four digits behind "\u", as UTF-8. Halves of larger characters become question marks.
  void character(std::string& out) {
    if (end_ - at_ < 5) fail();
    uint32_t code = 0;
    for (int i = 0; i < 4; ++i) {
      char digit = *++at_;
      if (!std::isxdigit(static_cast<unsigned char>(digit))) fail();
      code = code * 16 + static_cast<uint32_t>(digit <= '9' ? digit - '0' : (digit | 32) - 'a' + 10);
    }
    if (code >= 0xD800 && code < 0xE000) code = '?';
    if (code < 0x80) {
      out += static_cast<char>(code);
    } else if (code < 0x800) {
      out += static_cast<char>(0xC0 | code >> 6), out += static_cast<char>(0x80 | (code & 63));
    } else {
      out += static_cast<char>(0xE0 | code >> 12), out += static_cast<char>(0x80 | (code >> 6 & 63));
      out += static_cast<char>(0x80 | (code & 63));
    }
  }

  const char *at_, *end_;
};

inline DLDataType stored_dtype(const std::string& name) {
  static const std::map<std::string, DLDataType> dtypes{
      {"F64", {kDLFloat, 64, 1}}, {"F32", {kDLFloat, 32, 1}}, {"F16", {kDLFloat, 16, 1}}, {"BF16", {kDLBfloat, 16, 1}},
      {"I64", {kDLInt, 64, 1}},   {"I32", {kDLInt, 32, 1}},   {"I16", {kDLInt, 16, 1}},   {"I8", {kDLInt, 8, 1}},
      {"U64", {kDLUInt, 64, 1}},  {"U32", {kDLUInt, 32, 1}},  {"U16", {kDLUInt, 16, 1}},  {"U8", {kDLUInt, 8, 1}},
      {"BOOL", {kDLBool, 8, 1}}};
  auto found = dtypes.find(name);
  if (found == dtypes.end()) refuse("the safetensors file has the dtype " + name + ", which is not read");
  return found->second;
}

}  // namespace detail

class SafeTensors {
 public:
  std::vector<NamedTensor> tensors;  // in the order of their elements
  std::map<std::string, std::string> metadata;

  explicit SafeTensors(const std::string& path) {
    std::ifstream file(path, std::ios::binary | std::ios::ate);
    if (!file) throw Error("OSError", "cannot open " + path);
    int64_t size = file.tellg(), header = 0;
    unsigned char length[8] = {};
    file.seekg(0);
    file.read(reinterpret_cast<char*>(length), 8);
    for (int i = 7; i >= 0; --i) header = static_cast<int64_t>(static_cast<uint64_t>(header) << 8 | length[i]);
    if (!file || header < 0 || header > size - 8) detail::HeaderReader::fail();
    std::string text(static_cast<size_t>(header), '\0');
    file.read(text.data(), header);
    size_ = size - 8 - header;
    if (size_ > 0) {
      memory_ = arena(static_cast<size_t>(size_));
      file.read(static_cast<char*>(memory_.get()), size_);
    }
    if (!file) throw Error("OSError", "cannot read " + path);
    read(text);
  }

 private:
  // Memory of large pages where the system has them: weights are read from one end to the other for each token.
  static std::shared_ptr<void> arena(size_t bytes) {
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw Error("MemoryError", "out of memory: weights cannot be loaded");
    madvise(memory, bytes, MADV_HUGEPAGE);
    return {memory, [bytes](void* address) { munmap(address, bytes); }};
  }

  void read(const std::string& text) {
    detail::HeaderReader reader(text);
    std::multimap<int64_t, NamedTensor> places;
    reader.object([&](const std::string& name) {
      if (name == "__metadata__")
        return reader.object([&](const std::string& key) { metadata[key] = reader.string(); });
      std::string dtype;
      std::vector<int64_t> shape, offsets;
      reader.object([&](const std::string& field) {
        if (field == "dtype") dtype = reader.string();
        else if (field == "shape") shape = reader.numbers();
        else if (field == "data_offsets") offsets = reader.numbers();
        else detail::HeaderReader::fail();
      });
      places.emplace(offsets.empty() ? 0 : offsets[0], NamedTensor{name, tensor(dtype, shape, offsets)});
    });
    if (!reader.at_end()) detail::HeaderReader::fail();
    for (auto& [_, named] : places) tensors.push_back(std::move(named));
  }

  Tensor tensor(const std::string& name, const std::vector<int64_t>& shape, const std::vector<int64_t>& offsets) const {
    DLDataType dtype = detail::stored_dtype(name);
    int64_t bytes = dtype.bits / 8;
    for (int64_t size : shape)
      if (__builtin_mul_overflow(bytes, size, &bytes)) detail::HeaderReader::fail();
    if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > size_ || offsets[1] - offsets[0] != bytes)
      detail::HeaderReader::fail();
    if (bytes == 0) return Tensor::uninitialised(dtype, shape);
    char* data = static_cast<char*>(memory_.get()) + offsets[0];
    if (offsets[0] % 64 == 0) return Tensor::over(data, memory_, dtype, shape);
    Tensor copy = Tensor::uninitialised(dtype, shape);  // kernels read aligned memory
    std::memcpy(copy.dl().data, data, static_cast<size_t>(bytes));
    return copy;
  }

  int64_t size_ = 0;
  std::shared_ptr<void> memory_;
};

}  // namespace relax

#endif  // RELAX_SAFETENSORS_H_
