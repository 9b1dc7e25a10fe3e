// SPDX-License-Identifier: Apache-2.0
#include "state/mamba_state.h"

#include <algorithm>

#include "core/checked.h"
#include "kernels/table.h"

namespace isobit {
namespace {

int64_t round_up(int64_t n) { return (n + 15) / 16 * 16; }

std::string who(const MambaShape& shape) { return "Mamba" + std::to_string(shape.version) + "State"; }

// Calls visit(index in the documented buffer of one row, index in the row) for every element of a section.
template <typename Visit>
void each(const MambaState::Impl::Section& s, const Visit& visit) {
  std::vector<int64_t> at(s.shape.size(), 0);
  const int64_t n = s.size(), inner = s.shape.back(), step = s.stride.back();
  for (int64_t i = 0; i < n; i += inner) {
    int64_t native = s.offset;
    for (size_t d = 0; d + 1 < at.size(); ++d) native += at[d] * s.stride[d];
    for (int64_t j = 0; j < inner; ++j) visit(i + j, native + j * step);
    for (size_t d = at.size() - 1; d-- > 0;) {
      if (++at[d] < s.shape[d]) break;
      at[d] = 0;
    }
  }
}

class Exchange : public LayerState::Transaction {
 public:
  explicit Exchange(MambaState::Impl& state) : state_(state) {
    state_.begin_call();
    std::fill(state_.taken.begin(), state_.taken.end(), 0);
  }
  ~Exchange() override { std::fill(state_.taken.begin(), state_.taken.end(), 0); }
  void commit() override {
    for (size_t row = 0; row < state_.taken.size(); ++row) {
      if (state_.taken[row] == 0)
        std::copy_n(state_.copies[state_.now].data() + static_cast<int64_t>(row) * state_.row_floats,
                    state_.row_floats,
                    state_.copies[1 - state_.now].data() + static_cast<int64_t>(row) * state_.row_floats);
      state_.tokens[row] += state_.taken[row];
    }
    state_.now = 1 - state_.now;
    state_.end_call();
  }

 private:
  MambaState::Impl& state_;
};

}  // namespace

int64_t MambaState::Impl::Section::size() const {
  int64_t n = 1;
  for (const int64_t extent : shape) n = checked_mul(n, extent);
  return n;
}

MambaState::Impl::Impl(const MambaShape& s, int64_t batch) : shape(s), batch(batch) {
  const std::string name = who(s);
  expect(batch > 0, name.c_str(), "batch_size", "a positive integer", std::to_string(batch));
  const auto add = [this](const char* section, std::vector<int64_t> extents, std::vector<int64_t> stride,
                          int64_t native) {
    sections.push_back({section, std::move(extents), std::move(stride), row_floats});
    row_floats += round_up(native);
  };
  if (s.version <= 2)
    add("conv_window", {s.conv_channels, s.conv_width}, {1, round_up(s.conv_channels)},
        checked_mul(round_up(s.conv_channels), s.conv_width));
  if (s.version == 1) {
    add("h", {s.channels, s.states}, {1, round_up(s.channels)}, checked_mul(round_up(s.channels), s.states));
  } else {
    if (s.version == 3) add("theta", {s.heads, s.angles}, {s.angles, 1}, checked_mul(s.heads, s.angles));
    const int64_t lanes = round_up(s.head_dim), head = checked_mul(s.states, lanes);
    add("h", {s.heads, s.head_dim, s.states}, {head, 1, lanes}, checked_mul(s.heads, head));
  }
  if (s.version == 3) {
    const int64_t keys = checked_mul(s.rank, s.states);
    if (s.rank == 1)
      add("k", {s.heads, s.states}, {keys, 1}, checked_mul(s.heads, keys));
    else
      add("k", {s.rank, s.heads, s.states}, {s.states, keys, 1}, checked_mul(s.heads, keys));
    add("v", {s.heads, s.head_dim}, {s.head_dim, 1}, checked_mul(s.heads, s.head_dim));
  }
  for (AlignedBuffer& copy : copies) copy = AlignedBuffer(checked_mul(batch, row_floats));
  taken.assign(static_cast<size_t>(batch), 0);
  tokens.assign(static_cast<size_t>(batch), 0);
  documented.resize(sections.size());
}

void MambaState::Impl::reset() {
  for (AlignedBuffer& copy : copies) std::fill_n(copy.data(), copy.size(), 0.0f);
  std::fill(tokens.begin(), tokens.end(), 0);
  end_call();
}

std::unique_ptr<LayerState::Transaction> MambaState::Impl::begin(std::span<const int64_t> /*appended*/) {
  return std::make_unique<Exchange>(*this);
}

size_t MambaState::Impl::find(const std::string& name) const {
  for (size_t i = 0; i < sections.size(); ++i)
    if (sections[i].name == name) return i;
  throw ValueError(refusal(who(shape), "buffer", "a buffer of this state", "'" + name + "'"));
}

void MambaState::Impl::export_to(size_t section, std::vector<float>& buffer) const {
  const Section& s = sections[section];
  for (int64_t row = 0; row < batch; ++row) {
    float* out = buffer.data() + row * s.size();
    const float* from = copies[now].data() + row * row_floats;
    each(s, [&](int64_t documented_at, int64_t native) { out[documented_at] = from[native]; });
  }
}

void MambaState::Impl::check_finite(size_t section, const float* values) const {
  const int64_t n = batch * sections[section].size();
  const int64_t bad = kernels::active_table().first_nonfinite(values, n);
  if (bad != n)
    throw ValueError(refusal(who(shape), sections[section].name, "finite values",
                             "NaN or infinity at element " + std::to_string(bad)));
}

void MambaState::Impl::import_from(size_t section, const float* values) {
  const Section& s = sections[section];
  for (int64_t row = 0; row < batch; ++row) {
    const float* in = values + row * s.size();
    float* to = copies[now].data() + row * row_floats;
    each(s, [&](int64_t documented_at, int64_t native) { to[native] = in[documented_at]; });
  }
}

void MambaState::Impl::begin_call() {
  for (auto& buffer : documented)
    if (buffer && buffer.use_count() == 1) buffer.reset();
  for (size_t i = 0; i < documented.size(); ++i)
    if (documented[i]) check_finite(i, documented[i]->data());
  for (size_t i = 0; i < documented.size(); ++i)
    if (documented[i]) import_from(i, documented[i]->data());
}

void MambaState::Impl::end_call() {
  for (size_t i = 0; i < documented.size(); ++i)
    if (documented[i]) export_to(i, *documented[i]);
}

MambaState::MambaState(const MambaShape& shape, int64_t batch_size)
    : impl_(std::make_unique<Impl>(shape, batch_size)) {}
MambaState::~MambaState() = default;
MambaState::MambaState(MambaState&&) noexcept = default;
MambaState& MambaState::operator=(MambaState&&) noexcept = default;

const MambaShape& MambaState::shape() const { return impl_->shape; }
int64_t MambaState::batch_size() const { return impl_->batch; }

std::vector<std::string> MambaState::buffer_names() const {
  std::vector<std::string> names;
  for (const Impl::Section& s : impl_->sections) names.push_back(s.name);
  return names;
}

std::vector<int64_t> MambaState::buffer_shape(const std::string& name) const {
  std::vector<int64_t> shape = impl_->sections[impl_->find(name)].shape;
  shape.insert(shape.begin(), impl_->batch);
  return shape;
}

std::shared_ptr<std::vector<float>> MambaState::buffer(const std::string& name) {
  const size_t i = impl_->find(name);
  auto& buffer = impl_->documented[i];
  if (!buffer) {
    auto fresh =
        std::make_shared<std::vector<float>>(static_cast<size_t>(impl_->batch * impl_->sections[i].size()));
    impl_->export_to(i, *fresh);
    buffer = std::move(fresh);
  }
  return buffer;
}

void MambaState::set_buffer(const std::string& name, std::span<const float> values) {
  const size_t i = impl_->find(name);
  const int64_t wanted = impl_->batch * impl_->sections[i].size();
  expect(static_cast<int64_t>(values.size()) == wanted, who(impl_->shape).c_str(), name,
         std::to_string(wanted) + " values", std::to_string(values.size()));
  impl_->check_finite(i, values.data());
  impl_->import_from(i, values.data());
  if (impl_->documented[i]) impl_->export_to(i, *impl_->documented[i]);
}

int64_t MambaState::tokens(int64_t row) const {
  expect(row >= 0 && row < impl_->batch, who(impl_->shape).c_str(), "row",
         "0.." + std::to_string(impl_->batch - 1), std::to_string(row));
  return impl_->tokens[static_cast<size_t>(row)];
}

void MambaState::reset() { impl_->reset(); }

MambaState MambaState::copy() {
  impl_->begin_call();
  MambaState other(impl_->shape, impl_->batch);
  const AlignedBuffer& from = impl_->copies[impl_->now];
  std::copy_n(from.data(), from.size(), other.impl_->copies[other.impl_->now].data());
  other.impl_->tokens = impl_->tokens;
  return other;
}

}  // namespace isobit
