// Parts of the paged KV cache (kv_cache.h): pages and their users, the pages of a sequence, rotary angles.
#ifndef RELAX_PAGED_SEQUENCE_H_
#define RELAX_PAGED_SEQUENCE_H_

#include <relax/builtins.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace relax {

inline constexpr int64_t kMultiHead = 0, kLatent = 1, kLinear = 2, kSliding = 3;  // kinds of layers

inline int64_t pages_of(int64_t tokens, int64_t page_size) { return (tokens + page_size - 1) / page_size; }

inline float of_bfloat16(uint16_t bits) {
  uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float number;
  std::memcpy(&number, &wide, 4);
  return number;
}

inline float of_float16(uint16_t bits) {
  int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  float size = exponent == 31  ? (mantissa ? NAN : INFINITY)
               : exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -24)
                               : std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);
  return bits >> 15 ? -size : size;
}

// Reference counts of pages, and the choice of free ones, in runs as long as possible: neighbours are read faster.
class PagePool {
 public:
  explicit PagePool(int64_t size)
      : users_(static_cast<size_t>(size), 0), free_(static_cast<size_t>(size) + 1, 1), count_(size) {
    free_.back() = 0;  // a fence behind the last page
  }

  int64_t available() const { return count_; }
  int32_t users(int32_t page) const { return users_[static_cast<size_t>(page)]; }
  void share(int32_t page) { ++users_[static_cast<size_t>(page)]; }
  void release(int32_t page) {
    if (--users_[static_cast<size_t>(page)] > 0) return;
    free_[static_cast<size_t>(page)] = 1;
    ++count_;
  }

  // Hand out `count` pages, of which there are enough; the first run begins behind page `after` if that is free.
  std::vector<int32_t> take(int64_t count, int32_t after) {
    std::vector<int32_t> taken;
    count_ -= count;
    while (static_cast<int64_t>(taken.size()) < count) {
      size_t at = static_cast<size_t>(after + 1);
      if (after < 0 || !free_[at]) at = start_of_run(count - static_cast<int64_t>(taken.size()));
      for (; static_cast<int64_t>(taken.size()) < count && free_[at]; ++at) {
        free_[at] = 0;
        users_[at] = 1;
        taken.push_back(static_cast<int32_t>(at));
      }
      after = taken.back();
    }
    return taken;
  }

 private:
  // The first pages of the longest free run are left to the sequence before it, to grow into.
  size_t start_of_run(int64_t count) const {
    size_t longest = 0, length = 0;
    for (size_t at = 0; at + 1 < free_.size();) {
      size_t end = at;
      while (free_[end]) ++end;
      if (end - at > length) longest = at, length = end - at;
      at = end + 1;
    }
    int64_t spare = static_cast<int64_t>(length) - count;
    return longest && spare > 0 ? longest + static_cast<size_t>(std::min<int64_t>((spare + 1) / 2, 32)) : longest;
  }

  std::vector<int32_t> users_;
  std::vector<char> free_;
  int64_t count_;
};

// Pages that are dropped from the middle of a sequence: `count` of them, from the page numbered `first` on.
struct Dropped {
  int64_t first = 0, count = 0;
  bool empty_range() const { return count == 0; }
  bool contains(int64_t page) const { return page >= first && page < first + count; }
};

// A sequence: the page `ids[j]` holds the tokens from position `starts[j]` on. Pages that no query can see any more are
// dropped behind those of the attention sinks.
struct PagedSequence {
  int64_t length = 0;  // tokens, including those whose pages were dropped
  std::vector<int32_t> ids, starts;
  Dropped dropped;
  int64_t window = 0, sink = 0;

  // The index in `ids` of the page of a position that was not dropped.
  int64_t index(int64_t position, int64_t page_size) const {
    int64_t page = position / page_size;
    return page < dropped.first ? page : page - dropped.count;
  }

  void append_pages(const std::vector<int32_t>& pages, int64_t page_size) {
    int64_t next = static_cast<int64_t>(ids.size()) + dropped.count;
    for (int32_t page : pages) {
      ids.push_back(page);
      starts.push_back(static_cast<int32_t>(next++ * page_size));
    }
  }

  // Remove the pages behind the first `count`; return them, the last one first.
  std::vector<int32_t> cut_pages(int64_t count) {
    std::vector<int32_t> removed(ids.rbegin(), ids.rend() - count);
    ids.resize(static_cast<size_t>(count));
    starts.resize(static_cast<size_t>(count));
    return removed;
  }

  // Keep the first `tokens` tokens; return the pages without any.
  std::vector<int32_t> cut_tokens(int64_t tokens, int64_t page_size) {
    length = tokens;
    if (tokens <= dropped.first * page_size) dropped = Dropped{};
    return cut_pages(pages_of(tokens, page_size) - dropped.count);
  }

  int64_t sink_page_count(int64_t page_size) const {
    return dropped.count ? dropped.first : std::min(pages_of(sink, page_size), static_cast<int64_t>(ids.size()));
  }

  // The index of the first page behind the sinks that the next token sees through the window.
  int64_t visible_from(int64_t page_size) const {
    if (window <= 0) return 0;
    int64_t first = std::max<int64_t>(0, length - window + 1) / page_size, sinks = sink_page_count(page_size);
    return first > sinks ? std::max(first - dropped.count, sinks) : 0;
  }

  // Drop the pages from those of the sinks up to `end`; return them, the last one first.
  std::vector<int32_t> drop_pages(int64_t end, int64_t page_size) {
    int64_t sinks = sink_page_count(page_size);
    std::vector<int32_t> removed(ids.begin() + sinks, ids.begin() + end);
    if (removed.empty()) return removed;
    ids.erase(ids.begin() + sinks, ids.begin() + end);
    starts.erase(starts.begin() + sinks, starts.begin() + end);
    dropped = Dropped{sinks, dropped.count + end - sinks};
    std::reverse(removed.begin(), removed.end());
    return removed;
  }

  // True if no page is dropped that a token at position `tokens` would see, or that holds a token before.
  bool holds_window_at(int64_t tokens, int64_t page_size) const {
    int64_t behind = dropped.first + dropped.count;
    if (!dropped.count || tokens <= dropped.first * page_size) return true;
    if (window <= 0 || tokens < behind * page_size) return false;
    return std::max<int64_t>(0, tokens - window + 1) / page_size >= behind;
  }
};

// Frequencies of a rotary embedding: the angle of pair i at position p is p * scale / (theta^(2i / dim) * factor i).
class Rotary {
 public:
  Rotary() = default;
  Rotary(int64_t dim, double theta, double scale, const std::vector<double>* factors, double scaling)
      : scaling_(scaling) {
    if (dim < 0 || dim % 2) refuse("the rotary dimension is " + text(dim) + ", expected an even number");
    if (dim && !(theta > 0))
      refuse("the base of rotary frequencies is " + std::to_string(theta) + ", expected a positive number");
    if (factors != nullptr && static_cast<int64_t>(factors->size()) != dim / 2)
      refuse("there are " + text(static_cast<int64_t>(factors->size())) + " factors of rotary frequencies, expected " +
             text(dim / 2));
    for (int64_t i = 0; i < dim; i += 2) {
      double divisor = factors == nullptr ? 1 : (*factors)[static_cast<size_t>(i / 2)];
      if (!(divisor > 0)) refuse("factors of rotary frequencies must be positive");
      double base = std::pow(theta, static_cast<double>(i) / static_cast<double>(dim));
      frequencies_.push_back(scale / base / divisor);
    }
  }

  int64_t pairs() const { return static_cast<int64_t>(frequencies_.size()); }

  // Write the cosines and sines of n positions: (n, 2, pairs).
  void write(const int32_t* positions, int64_t n, float* angles) const {
    for (int64_t i = 0; i < n; ++i) {
      for (double each : frequencies_) *angles++ = static_cast<float>(std::cos(positions[i] * each) * scaling_);
      for (double each : frequencies_) *angles++ = static_cast<float>(std::sin(positions[i] * each) * scaling_);
    }
  }

 private:
  std::vector<double> frequencies_;
  double scaling_ = 1;
};

}  // namespace relax

#endif  // RELAX_PAGED_SEQUENCE_H_
