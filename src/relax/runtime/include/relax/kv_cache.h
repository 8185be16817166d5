// The paged KV cache of language models without Python, for libraries that relax exports.
//
//     relax::register_kv_cache();                                    before the first call of the library
//     Value cache = library["create_cache"](...);
//     relax::call("vm.builtin.kv_state_add_sequence", cache, 0);
//     relax::call("vm.builtin.kv_state_begin_forward", cache, Value::shape({0}), Value::shape({5}));
//     Value logits = library["forward"](tokens, last, cache, ...);
//     relax::call("vm.builtin.kv_state_end_forward", cache);
//
// The names, arguments and errors are those of relax in Python. Kernels come from the library. Not implemented, and
// refused: latent attention (MLA), token trees, and attention among the new tokens alone. A cache is used by one thread
// at a time.
#ifndef RELAX_KV_CACHE_H_
#define RELAX_KV_CACHE_H_

#include <relax/library.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <relax/paged_sequence.h>

namespace relax {

// Settings of a cache, which do not change while it is in use.
struct CacheLayout {
  int64_t max_sequences, total_tokens, prefill_chunk, page_size, sliding_window, first_layer;
  std::vector<int64_t> kinds;
  int64_t query_heads, key_heads, key_dim, value_dim;
  DLDataType dtype, page_dtype;
  Rotary rotary;
  std::unique_ptr<Rotary> local_rotary;

  // True for a layer that windows apply to: those of kind "sliding", or all if there are none.
  bool slides(size_t layer) const {
    bool some = std::find(kinds.begin(), kinds.end(), kSliding) != kinds.end();
    return kinds[layer] == kSliding || !some;
  }
  // True if all layers with pages slide, so that pages outside of windows are of no use.
  bool slides_everywhere() const {
    for (size_t i = 0; i < kinds.size(); ++i)
      if (kinds[i] != kLinear && !slides(i)) return false;
    return true;
  }
  int64_t pages() const { return pages_of(total_tokens, page_size) + (sliding_window ? 2 * max_sequences : 0); }
  int64_t packed_width() const { return (query_heads + key_heads) * key_dim + key_heads * value_dim; }
};

class PagedKVCache {
 public:
  // Allocate the pages of all layers. `append` and `attend` are the kernels of the program.
  PagedKVCache(CacheLayout layout, Value append, Value attend)
      : layout_(std::move(layout)), append_(std::move(append)), attend_(std::move(attend)), pool_(layout_.pages()) {
    for (int64_t kind : layout_.kinds) {
      if (kind == kLinear) {
        layers_.emplace_back();
        continue;
      }
      int64_t pages = layout_.pages(), heads = layout_.key_heads, size = layout_.page_size;
      layers_.push_back({Tensor::uninitialised(layout_.page_dtype, {pages, heads, layout_.key_dim, size}),
                         Tensor::uninitialised(layout_.page_dtype, {pages, heads, size, layout_.value_dim})});
    }
  }

  int64_t available_pages() const { return pool_.available(); }
  bool is_empty() const { return sequences_.empty(); }
  int64_t total_length() const {
    int64_t total = 0;
    for (const auto& [_, sequence] : sequences_) total += sequence.length;
    return total;
  }

  void clear() {
    sequences_.clear();
    pool_ = PagePool(layout_.pages());
    end_forward();
  }

  void add_sequence(int64_t seq) {
    check_new(seq);
    PagedSequence sequence;
    sequence.window = layout_.sliding_window;
    sequences_.emplace(seq, std::move(sequence));
  }

  void remove_sequence(int64_t seq) {
    PagedSequence& found = sequence(seq);
    check_idle("a sequence cannot be removed");
    release(found.cut_pages(0));
    sequences_.erase(seq);
  }

  // Add a sequence that begins with the first `pos` tokens of another one (-1: all), whose pages it shares.
  void fork_sequence(int64_t parent, int64_t child, int64_t pos) {
    PagedSequence& source = sequence(parent);
    check_new(child);
    check_idle("a sequence cannot be forked");
    int64_t length = pos == -1 ? source.length : pos;
    std::string where = "cannot fork sequence " + text(parent) + " at position " + text(pos) + ": ";
    if (length < 0 || length > source.length) refuse(where + "it has " + text(source.length) + " tokens");
    if (!source.holds_window_at(length, layout_.page_size)) refuse(where + "its window has slid past it");
    PagedSequence copy = source;
    copy.cut_tokens(length, layout_.page_size);
    for (int32_t page : copy.ids) pool_.share(page);
    sequences_.emplace(child, std::move(copy));
  }

  // Forget the last `count` tokens of a sequence.
  void popn(int64_t seq, int64_t count) {
    PagedSequence& found = sequence(seq);
    check_idle("tokens cannot be forgotten");
    std::string what = "cannot forget " + text(count) + " tokens of sequence " + text(seq);
    if (count < 0 || count > found.length) refuse(what + ", which has " + text(found.length));
    if (count == 0) return;
    if (!found.holds_window_at(found.length - count, layout_.page_size))
      refuse(what + ": its window has slid past those before");
    release(found.cut_tokens(found.length - count, layout_.page_size));
  }

  // Let a sequence see its last `window` tokens and its first `sink` ones only, in the layers that slide.
  void slide(int64_t seq, int64_t window, int64_t sink) {
    PagedSequence& found = sequence(seq);
    check_idle("a sliding window cannot be set");
    if (window < 0 || sink < 0)
      refuse("the sliding window of sequence " + text(seq) + " is " + text(window) + " with " + text(sink) +
             " sinks, expected no negative");
    if (!found.dropped.empty_range() && (window == 0 || window > found.window || sink > found.sink))
      refuse("cannot widen the sliding window of sequence " + text(seq) + ": it has slid past tokens already");
    found.window = std::min<int64_t>(window, INT32_MAX);
    found.sink = std::min<int64_t>(sink, INT32_MAX);
  }

  // Make room for new tokens of some sequences, and write the tables that all layers read.
  void begin_forward(const std::vector<int64_t>& seq_ids, const std::vector<int64_t>& lengths) {
    check_idle("another forward cannot begin");
    std::vector<PagedSequence*> batch = batch_of(seq_ids, lengths);
    int64_t n = 0, most = int64_t{1} << 32;  // more than any cache takes: sums do not overflow
    for (int64_t length : lengths) n = std::min(n + std::min(length, most), most);
    if (n > layout_.prefill_chunk)
      refuse(text(n) + " new tokens are more than the cache takes at once, " + text(layout_.prefill_chunk));
    Forward forward = buffers(n);
    reserve(batch, lengths);
    place(batch, lengths, forward);
    std::vector<int32_t> indptr{0};
    for (int64_t length : lengths) indptr.push_back(indptr.back() + static_cast<int32_t>(length));
    forward.query_indptr = tensor_of(indptr);
    forward.full = table(batch, false);
    bool slides = std::any_of(batch.begin(), batch.end(), [](auto* sequence) { return sequence->window != 0; });
    forward.sliding = slides ? table(batch, true) : forward.full;
    for (size_t i = 0; i < batch.size(); ++i) batch[i]->length += lengths[i];
    forward_ = std::make_unique<Forward>(std::move(forward));
  }

  void end_forward() { forward_.reset(); }

  // The positions of the new tokens, int32 (n,).
  Tensor query_positions() const {
    const Forward& forward = under_way();
    const int32_t* from = forward.positions.data<int32_t>();
    return tensor_of(std::vector<int32_t>(from, from + forward.n));
  }

  // Append the keys and values of the new tokens to a layer, and attend from their queries; writes `out`.
  void attention_with_fused_qkv(int64_t layer, double scale, const Value& qkv, const Value& out) {
    const Forward& forward = under_way();
    const Layer& pages = layer_of(layer);
    size_t index = static_cast<size_t>(layer - layout_.first_layer);
    Tensor packed = fitted("qkv", qkv, {forward.n, layout_.packed_width()}, layout_.dtype);
    Tensor result = fitted("out", out, {forward.n, layout_.query_heads, layout_.value_dim}, layout_.dtype);
    bool local = layout_.local_rotary != nullptr && layout_.kinds[index] == kSliding;
    const Table& tables = layout_.slides(index) ? forward.sliding : forward.full;
    Tensor factor = Tensor::zeros<float>({1});
    *factor.data<float>() = static_cast<float>(scale);
    append_.apply({packed, local ? forward.local_angles : forward.angles, forward.slots, pages.keys, pages.values,
                   forward.queries});
    attend_.apply({forward.queries, forward.positions, forward.query_indptr, pages.keys, pages.values, tables.indptr,
                   tables.ids, tables.positions, tables.windows, factor, result, forward.lse});
  }

  // Copy the keys and values of tokens [start, end) to `k` (layers, end - start, hk, d) and `v` (…, hk, e).
  void debug_get_kv(int64_t seq, int64_t start, int64_t end, const Value& k, const Value& v) {
    PagedSequence& found = sequence(seq);
    if (start < 0 || start > end || end > found.length)
      refuse("sequence " + text(seq) + " has " + text(found.length) + " tokens, and those from " + text(start) +
             " to " + text(end) + " are asked for");
    int64_t layers = static_cast<int64_t>(layers_.size()), heads = layout_.key_heads, size = layout_.page_size;
    Tensor keys = fitted("k", k, {layers, end - start, heads, layout_.key_dim}, layout_.dtype);
    Tensor values = fitted("v", v, {layers, end - start, heads, layout_.value_dim}, layout_.dtype);
    for (int64_t position = start; position < end; ++position)
      if (found.dropped.contains(position / size))
        refuse("tokens from " + text(start) + " to " + text(end) + " of sequence " + text(seq) +
               " are outside of its window, and dropped");
    if (!(layout_.dtype.code == kDLFloat && layout_.dtype.bits == 32) && !same(layout_.dtype, layout_.page_dtype))
      refuse("debug_get_kv converts pages to float32 only");
    for (int64_t i = 0; i < layers; ++i) {
      if (layout_.kinds[static_cast<size_t>(i)] == kLinear) continue;
      const Layer& pages = layers_[static_cast<size_t>(i)];
      for (int64_t position = start; position < end; ++position) {
        int64_t page = found.ids[static_cast<size_t>(found.index(position, size))], row = position - start;
        for (int64_t head = 0; head < heads; ++head) {
          for (int64_t d = 0; d < layout_.key_dim; ++d)
            copy_element(pages.keys, ((page * heads + head) * layout_.key_dim + d) * size + position % size, keys,
                         ((i * (end - start) + row) * heads + head) * layout_.key_dim + d);
          for (int64_t e = 0; e < layout_.value_dim; ++e)
            copy_element(pages.values, ((page * heads + head) * size + position % size) * layout_.value_dim + e, values,
                         ((i * (end - start) + row) * heads + head) * layout_.value_dim + e);
        }
      }
    }
  }

 private:
  struct Layer {
    Tensor keys = Tensor::uninitialised({kDLFloat, 32, 1}, {0}), values = keys;
  };
  struct Table {
    Tensor indptr, ids, positions, windows;
  };
  struct Forward {
    int64_t n;
    Tensor positions, slots, queries, lse, angles, local_angles;
    Tensor query_indptr = positions;
    Table full{positions, positions, positions, positions}, sliding = full;
  };

  static bool same(DLDataType a, DLDataType b) { return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes; }

  static Tensor tensor_of(const std::vector<int32_t>& numbers, int64_t columns = 0) {
    int64_t count = static_cast<int64_t>(numbers.size());
    Tensor made = Tensor::zeros<int32_t>(columns ? std::vector<int64_t>{count / columns, columns}
                                                 : std::vector<int64_t>{count});
    std::copy(numbers.begin(), numbers.end(), made.data<int32_t>());
    return made;
  }

  // A tensor of this dtype, under this shape if it has as many elements.
  static Tensor fitted(const char* name, const Value& value, const std::vector<int64_t>& shape, DLDataType dtype) {
    if (value.kind() != kTVMFFITensor) fail_type(std::string("expected a tensor as ") + name);
    Tensor tensor(value);
    if (!same(tensor.dl().dtype, dtype)) fail_type(std::string(name) + " has another dtype than the cache");
    if (!tensor.is_compact()) refuse(std::string(name) + " is not compact, or not in host memory");
    if (tensor.shape() == shape) return tensor;
    int64_t count = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<int64_t>());
    if (tensor.size() != count)
      refuse(std::string(name) + " has the shape " + dims(tensor.shape()) + ", expected " + dims(shape));
    return tensor.view(shape);
  }

  PagedSequence& sequence(int64_t seq) {
    auto found = sequences_.find(seq);
    if (found == sequences_.end()) refuse("there is no sequence " + text(seq));
    return found->second;
  }

  void check_new(int64_t seq) const {
    if (sequences_.count(seq)) refuse("there is a sequence " + text(seq) + " already");
    if (static_cast<int64_t>(sequences_.size()) >= layout_.max_sequences)
      refuse("cannot add sequence " + text(seq) + ": the cache was made for " + text(layout_.max_sequences) +
             " sequences");
  }

  void check_idle(const std::string& subject) const {
    if (forward_ != nullptr) refuse(subject + " while a forward is under way: call kv_state_end_forward first");
  }

  const Forward& under_way() const {
    if (forward_ == nullptr) refuse("no forward is under way: call kv_state_begin_forward first");
    return *forward_;
  }

  const Layer& layer_of(int64_t layer) const {
    int64_t first = layout_.first_layer, count = static_cast<int64_t>(layers_.size());
    if (layer < first || layer - first >= count)
      refuse("there is no layer " + text(layer) + ": layers are numbered from " + text(first) + " to " +
             text(first + count - 1));
    size_t index = static_cast<size_t>(layer - first);
    if (layout_.kinds[index] == kLinear) refuse("layer " + text(layer) + " is linear: it has no keys and values");
    return layers_[index];
  }

  void release(const std::vector<int32_t>& pages) {
    for (int32_t page : pages) pool_.release(page);
  }

  std::vector<PagedSequence*> batch_of(const std::vector<int64_t>& seq_ids, const std::vector<int64_t>& lengths) {
    if (lengths.empty() || seq_ids.size() != lengths.size())
      refuse("expected a number of new tokens for each of " + text(static_cast<int64_t>(seq_ids.size())) +
             " sequences, found " + text(static_cast<int64_t>(lengths.size())));
    if (std::set<int64_t>(seq_ids.begin(), seq_ids.end()).size() != seq_ids.size())
      refuse("a sequence is named twice in " + dims(seq_ids));
    std::vector<PagedSequence*> batch;
    for (int64_t seq : seq_ids) batch.push_back(&sequence(seq));
    for (size_t i = 0; i < lengths.size(); ++i)
      if (lengths[i] <= 0)
        refuse("sequence " + text(seq_ids[i]) + " gets " + text(lengths[i]) + " new tokens, expected at least one");
    return batch;
  }

  struct Plan {
    int64_t count;
    bool copies;
    int64_t first;
  };

  // Give sequences pages for new tokens, and copies of the shared pages that get some. An error changes nothing.
  void reserve(const std::vector<PagedSequence*>& batch, const std::vector<int64_t>& lengths) {
    int64_t size = layout_.page_size, needed = 0, freed = 0;
    std::vector<Plan> plans;
    std::map<int32_t, int32_t> others;
    bool drops = layout_.slides_everywhere();
    for (size_t i = 0; i < batch.size(); ++i) {
      const PagedSequence& each = *batch[i];
      Plan plan{pages_of(each.length + lengths[i], size) - pages_of(each.length, size), false, 0};
      if (each.length % size) {
        int32_t last = each.ids.back();
        int32_t users = others.count(last) ? others[last] : pool_.users(last);
        plan.copies = users > 1;
        others[last] = users - 1;
      }
      if (each.window && drops) plan.first = each.visible_from(size);
      for (int64_t at = each.sink_page_count(size); at < plan.first; ++at)
        freed += pool_.users(each.ids[static_cast<size_t>(at)]) == 1;
      needed += plan.count + plan.copies;
      plans.push_back(plan);
    }
    if (needed > pool_.available() + freed)
      refuse("the new tokens need " + text(needed) + " pages of " + text(size) + " tokens, and " +
             text(pool_.available() + freed) + " are free");
    for (size_t i = 0; i < batch.size(); ++i)
      if (plans[i].first) release(batch[i]->drop_pages(plans[i].first, size));
    for (size_t i = 0; i < batch.size(); ++i) {
      if (plans[i].copies) copy_last_page(*batch[i]);
      if (plans[i].count == 0) continue;
      int32_t after = batch[i]->ids.empty() ? -1 : batch[i]->ids.back();
      batch[i]->append_pages(pool_.take(plans[i].count, after), size);
    }
  }

  // Give a sequence a copy of its last page, in all layers.
  void copy_last_page(PagedSequence& found) {
    size_t last = found.ids.size() - 1;
    int32_t source = found.ids[last], page = pool_.take(1, last ? found.ids[last - 1] : -1)[0];
    for (const Layer& layer : layers_)
      for (const Tensor* tensor : {&layer.keys, &layer.values}) {
        size_t bytes = tensor->size() ? static_cast<size_t>(tensor->size() / layout_.pages()) * bytes_of(*tensor) : 0;
        char* data = static_cast<char*>(tensor->dl().data);
        std::memcpy(data + static_cast<size_t>(page) * bytes, data + static_cast<size_t>(source) * bytes, bytes);
      }
    found.ids[last] = page;
    pool_.release(source);
  }

  static size_t bytes_of(const Tensor& tensor) { return tensor.dl().dtype.bits / 8u; }

  static void copy_element(const Tensor& from, int64_t at, const Tensor& to, int64_t place) {
    const char* source = static_cast<const char*>(from.dl().data) + static_cast<size_t>(at) * bytes_of(from);
    char* target = static_cast<char*>(to.dl().data) + to.dl().byte_offset + static_cast<size_t>(place) * bytes_of(to);
    if (same(from.dl().dtype, to.dl().dtype)) {
      std::memcpy(target, source, bytes_of(to));
      return;
    }
    uint16_t bits;
    std::memcpy(&bits, source, 2);
    float number = from.dl().dtype.code == kDLBfloat ? of_bfloat16(bits) : of_float16(bits);
    std::memcpy(target, &number, 4);
  }

  // Write the positions, slots and angles of new tokens.
  void place(const std::vector<PagedSequence*>& batch, const std::vector<int64_t>& lengths, Forward& forward) {
    int32_t *positions = forward.positions.data<int32_t>(), *slots = forward.slots.data<int32_t>();
    int64_t size = layout_.page_size;
    for (size_t i = 0; i < batch.size(); ++i)
      for (int64_t at = batch[i]->length; at < batch[i]->length + lengths[i]; ++at) {
        *positions++ = static_cast<int32_t>(at);
        int64_t page = batch[i]->ids[static_cast<size_t>(batch[i]->index(at, size))];
        *slots++ = static_cast<int32_t>(page * size + at % size);
      }
    layout_.rotary.write(forward.positions.data<int32_t>(), forward.n, forward.angles.data<float>());
    if (layout_.local_rotary != nullptr)
      layout_.local_rotary->write(forward.positions.data<int32_t>(), forward.n, forward.local_angles.data<float>());
  }

  // Views for `n` tokens of memory that grows with the greatest forward so far.
  Forward buffers(int64_t n) {
    int64_t heads = layout_.query_heads;
    if (n > rows_) {
      int64_t rows = std::min(std::max(n, 2 * rows_), std::max(n, layout_.prefill_chunk));
      positions_ = std::make_unique<Tensor>(Tensor::zeros<int32_t>({rows}));
      slots_ = std::make_unique<Tensor>(Tensor::zeros<int32_t>({rows}));
      queries_ = std::make_unique<Tensor>(Tensor::uninitialised(layout_.dtype, {rows, heads, layout_.key_dim}));
      lse_ = std::make_unique<Tensor>(Tensor::zeros<float>({rows, heads}));
      angles_ = std::make_unique<Tensor>(Tensor::zeros<float>({rows, 2, layout_.rotary.pairs()}));
      if (layout_.local_rotary != nullptr)
        local_angles_ = std::make_unique<Tensor>(Tensor::zeros<float>({rows, 2, layout_.local_rotary->pairs()}));
      rows_ = rows;
    }
    auto first = [n](const std::unique_ptr<Tensor>& tensor) {
      std::vector<int64_t> shape = tensor->shape();
      shape[0] = n;
      return Tensor::over(tensor->dl().data, std::make_shared<Value>(*tensor), tensor->dl().dtype, shape);
    };
    return {n, first(positions_), first(slots_), first(queries_), first(lse_), first(angles_),
            first(local_angles_ == nullptr ? angles_ : local_angles_)};
  }

  // The pages of a batch: for layers that slide, those of the sinks and of the windows.
  Table table(const std::vector<PagedSequence*>& batch, bool slides) const {
    std::vector<int32_t> indptr{0}, ids, positions, windows;
    int64_t size = layout_.page_size;
    for (const PagedSequence* each : batch) {
      int64_t first = slides ? each->visible_from(size) : 0, sinks = std::min(each->sink_page_count(size), first);
      for (int64_t at = 0; at < static_cast<int64_t>(each->ids.size()); ++at) {
        if (at >= sinks && at < first) continue;
        ids.push_back(each->ids[static_cast<size_t>(at)]);
        positions.push_back(each->starts[static_cast<size_t>(at)]);
      }
      indptr.push_back(static_cast<int32_t>(ids.size()));
      windows.push_back(static_cast<int32_t>(slides ? each->window : 0));
      windows.push_back(static_cast<int32_t>(slides ? each->sink : 0));
    }
    return {tensor_of(indptr), tensor_of(ids), tensor_of(positions), tensor_of(windows, 2)};
  }

  CacheLayout layout_;
  Value append_, attend_;
  PagePool pool_;
  std::vector<Layer> layers_;
  std::map<int64_t, PagedSequence> sequences_;
  std::unique_ptr<Forward> forward_;
  int64_t rows_ = 0;
  std::unique_ptr<Tensor> positions_, slots_, queries_, lse_, angles_, local_angles_;
};

}  // namespace relax

#include <relax/kv_cache_builtins.h>

#endif  // RELAX_KV_CACHE_H_
