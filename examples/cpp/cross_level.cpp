// The cross-level program (examples/cross_level.py) without Python: a library exported from it, and the packed functions
// that it calls, in C++. Prints every result beside what it should be; ends with 0 if all agree.
//
//     cross_level cross_level.so

#include <algorithm>
#include <cmath>
#include <cstdio>

#include <relax/library.h>

using relax_library::Tensor;
using relax_library::Value;

namespace {

int printed = 0;

void register_functions() {
  relax_library::register_function("cross_level.print", [](const std::vector<Value>& args) {
    Tensor tensor(args.at(0));
    std::printf("    packed function saw a %lldx%lld tensor\n", static_cast<long long>(tensor.shape()[0]),
                static_cast<long long>(tensor.shape()[1]));
    ++printed;
    return Value();
  });
  relax_library::register_function("cross_level.add", [](const std::vector<Value>& args) {
    Tensor a(args.at(0)), b(args.at(1)), sum = Tensor::zeros<float>(a.shape());
    for (int64_t i = 0; i < a.size(); ++i) sum.data<float>()[i] = a.data<float>()[i] + b.data<float>()[i];
    return Value(sum);
  });
  relax_library::register_function("cross_level.tile", [](const std::vector<Value>& args) {
    Tensor a(args.at(0)), out(args.at(1));
    int64_t rows = a.shape()[0], columns = a.shape()[1];
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < 2 * columns; ++j)
        out.data<float>()[i * 2 * columns + j] = a.data<float>()[i * columns + j % columns];
    return Value();
  });
}

float element(int64_t i) { return static_cast<float>(i * 37 % 19) / 19.0f - 0.5f; }

// The largest difference between a result and a plain computation of it.
double difference(const relax_library::Function& run, int64_t m, int64_t n, int64_t k) {
  Tensor x = Tensor::zeros<float>({m, n}), y = Tensor::zeros<float>({n, k});
  for (int64_t i = 0; i < x.size(); ++i) x.data<float>()[i] = element(i);
  for (int64_t i = 0; i < y.size(); ++i) y.data<float>()[i] = element(i + 5);
  Tensor z = run(x, y);
  if (z.shape() != std::vector<int64_t>{m, 2 * k}) return INFINITY;
  double most = 0;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < 2 * k; ++j) {
      double sum = 0;
      for (int64_t r = 0; r < n; ++r) sum += double(x.data<float>()[i * n + r]) * y.data<float>()[r * k + j % k];
      most = std::max(most, std::abs(2 * std::max(sum, 0.0) - z.data<float>()[i * 2 * k + j]));
    }
  return most;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2) return std::fprintf(stderr, "usage: cross_level cross_level.so\n"), 2;
  relax_library::Library library(argv[1]);
  auto run = library["main"];
  try {
    run(Tensor::zeros<float>({2, 3}), Tensor::zeros<float>({3, 4}));
  } catch (const relax_library::Error& error) {
    std::printf("before the packed functions are there: %s: %s\n", error.kind().c_str(), error.what());
  }
  register_functions();
  bool agreed = true;
  const int64_t sizes[][3] = {{2, 3, 4}, {1, 1, 1}, {5, 0, 2}, {0, 4, 3}, {64, 32, 48}};
  for (auto& [m, n, k] : sizes) {
    double most = difference(run, m, n, k);
    std::printf("%lld, %lld, %lld: largest difference %.1e\n", (long long)m, (long long)n, (long long)k, most);
    agreed = agreed && most < 1e-3;
  }
  try {
    run(Tensor::zeros<float>({2, 3}), Tensor::zeros<float>({4, 4}));
    agreed = false;
  } catch (const relax_library::Error& error) {
    std::printf("%s: %s\n", error.kind().c_str(), error.what());
  }
  return agreed && printed == 5 ? 0 : 1;
} catch (const relax_library::Error& error) {
  std::fprintf(stderr, "%s: %s\n", error.kind().c_str(), error.what());
  return 1;
}
