// Recognise handwritten digits without Python: the library exported from examples/digits.py, and images from a file of
// floats, 64 each. Prints one digit and its probability a line.
//
//     digits digits.so images.bin

#include <cstdio>
#include <fstream>
#include <iterator>

#include <relax/library.h>

using relax_library::Tensor;

int main(int argc, char** argv) try {
  if (argc != 3) return std::fprintf(stderr, "usage: digits digits.so images.bin\n"), 2;
  std::ifstream file(argv[2], std::ios::binary);
  std::vector<char> bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  int64_t count = static_cast<int64_t>(bytes.size() / (64 * sizeof(float)));
  Tensor images = Tensor::zeros<float>({count, 1, 8, 8});
  std::copy(bytes.begin(), bytes.begin() + count * 64 * sizeof(float), reinterpret_cast<char*>(images.data<float>()));

  relax_library::Library library(argv[1]);
  auto result = library["main"](images).fields();
  Tensor probabilities(result.at(0)), digits(result.at(1));
  for (int64_t i = 0; i < count; ++i) {
    int64_t digit = digits.data<int64_t>()[i];
    std::printf("%lld %.4f\n", static_cast<long long>(digit), probabilities.data<float>()[i * 10 + digit]);
  }
  return 0;
} catch (const relax_library::Error& error) {
  std::fprintf(stderr, "%s: %s\n", error.kind().c_str(), error.what());
  return 1;
}
