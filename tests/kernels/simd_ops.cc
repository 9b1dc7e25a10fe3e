// SPDX-License-Identifier: Apache-2.0
// The operations of the 16-lane type this file is compiled for (cmake/isa.cmake).
#include "kernels/simd_ops.h"

#include ISOBIT_SIMD_HEADER

namespace isobit::kernels::ISOBIT_ISA_NAMESPACE {
namespace {

/// Loads, applies and stores: the operation may take one to three float or integer vectors and give either or
/// a mask.
struct Lanes {
  const uint32_t *a, *b, *c;
  uint32_t* r;
  f32x16 fa() const { return bitcast_f(ia()); }
  f32x16 fb() const { return bitcast_f(ib()); }
  f32x16 fc() const { return bitcast_f(ic()); }
  i32x16 ia() const { return load_i(reinterpret_cast<const int32_t*>(a)); }
  i32x16 ib() const { return load_i(reinterpret_cast<const int32_t*>(b)); }
  i32x16 ic() const { return load_i(reinterpret_cast<const int32_t*>(c)); }
  void put(i32x16 v) const { store_i(reinterpret_cast<int32_t*>(r), v); }
  void put(f32x16 v) const { put(bitcast_i(v)); }
  void put(mask16 m) const {
    // The mask by its bits, by a selection, and by any and all.
    put(select(m, broadcast_i(1), broadcast_i(0)));
    for (uint32_t i = 0; i < 16; ++i) r[i] |= (bits(m) >> i & 1) << 1;
    r[0] |= static_cast<uint32_t>(any(m)) << 2 | static_cast<uint32_t>(all(m)) << 3;
  }
  void put(float x) const {
    for (int i = 0; i < 16; ++i) r[i] = __builtin_bit_cast(uint32_t, x);
  }
};

template <auto kRun>
void run(const uint32_t* a, const uint32_t* b, const uint32_t* c, uint32_t* r) {
  kRun(Lanes{a, b, c, r});
}

int count_of(const Lanes& l) { return static_cast<int>(l.a[0] % 17); }

constexpr Domain kAny = Domain::kAny;
constexpr SimdOp kOps[] = {
    {"broadcast", kAny, true, run<[](Lanes l) { l.put(broadcast(__builtin_bit_cast(float, l.a[0]))); }>},
    {"broadcast_i", kAny, false, run<[](Lanes l) { l.put(broadcast_i(static_cast<int32_t>(l.a[0]))); }>},
    {"zero", kAny, false, run<[](Lanes l) { l.put(bitcast_i(zero())); }>},
    {"lane_ids", kAny, false, run<[](Lanes l) { l.put(lane_ids()); }>},
    {"first_n", kAny, false, run<[](Lanes l) { l.put(first_n(count_of(l))); }>},
    {"a + b", kAny, true, run<[](Lanes l) { l.put(l.fa() + l.fb()); }>},
    {"a - b", kAny, true, run<[](Lanes l) { l.put(l.fa() - l.fb()); }>},
    {"a * b", kAny, true, run<[](Lanes l) { l.put(l.fa() * l.fb()); }>},
    {"a / b", kAny, true, run<[](Lanes l) { l.put(l.fa() / l.fb()); }>},
    {"-a", kAny, false, run<[](Lanes l) { l.put(bitcast_i(-l.fa())); }>},
    {"fma", kAny, true, run<[](Lanes l) { l.put(fma(l.fa(), l.fb(), l.fc())); }>},
    {"fnma", kAny, true, run<[](Lanes l) { l.put(fnma(l.fa(), l.fb(), l.fc())); }>},
    {"sqrt", kAny, true, run<[](Lanes l) { l.put(sqrt(l.fa())); }>},
    {"abs", kAny, false, run<[](Lanes l) { l.put(bitcast_i(abs(l.fa()))); }>},
    {"max", kAny, true, run<[](Lanes l) { l.put(max(l.fa(), l.fb())); }>},
    {"min", kAny, true, run<[](Lanes l) { l.put(min(l.fa(), l.fb())); }>},
    {"a < b", kAny, false, run<[](Lanes l) { l.put(l.fa() < l.fb()); }>},
    {"a <= b", kAny, false, run<[](Lanes l) { l.put(l.fa() <= l.fb()); }>},
    {"a > b", kAny, false, run<[](Lanes l) { l.put(l.fa() > l.fb()); }>},
    {"a >= b", kAny, false, run<[](Lanes l) { l.put(l.fa() >= l.fb()); }>},
    {"a == b", kAny, false, run<[](Lanes l) { l.put(l.fa() == l.fb()); }>},
    {"i == j", kAny, false, run<[](Lanes l) { l.put(l.ia() == l.ib()); }>},
    {"i > j", kAny, false, run<[](Lanes l) { l.put(l.ia() > l.ib()); }>},
    {"m & n", kAny, false, run<[](Lanes l) { l.put((l.fa() < l.fb()) & (l.fb() < l.fc())); }>},
    {"m | n", kAny, false, run<[](Lanes l) { l.put((l.fa() < l.fb()) | (l.fb() < l.fc())); }>},
    {"~m", kAny, false, run<[](Lanes l) { l.put(~(l.fa() < l.fb())); }>},
    {"select", kAny, false, run<[](Lanes l) { l.put(bitcast_i(select(l.fa() < l.fb(), l.fa(), l.fc()))); }>},
    {"select_i", kAny, false, run<[](Lanes l) { l.put(select(l.fa() < l.fb(), l.ia(), l.ic())); }>},
    {"i + j", kAny, false, run<[](Lanes l) { l.put(l.ia() + l.ib()); }>},
    {"i - j", kAny, false, run<[](Lanes l) { l.put(l.ia() - l.ib()); }>},
    {"i * j", kAny, false, run<[](Lanes l) { l.put(l.ia() * l.ib()); }>},
    {"mulhi_u", kAny, false, run<[](Lanes l) { l.put(mulhi_u(l.ia(), l.ib())); }>},
    {"i & j", kAny, false, run<[](Lanes l) { l.put(l.ia() & l.ib()); }>},
    {"i | j", kAny, false, run<[](Lanes l) { l.put(l.ia() | l.ib()); }>},
    {"i ^ j", kAny, false, run<[](Lanes l) { l.put(l.ia() ^ l.ib()); }>},
    {"load_bf16", kAny, false,
     run<[](Lanes l) { l.put(bitcast_i(load_bf16(reinterpret_cast<const uint16_t*>(l.a)))); }>},
    {"load_i8", kAny, false, run<[](Lanes l) { l.put(load_i8(reinterpret_cast<const int8_t*>(l.a))); }>},
    {"shl", kAny, false, run<[](Lanes l) { l.put(shl<7>(l.ia())); }>},
    {"shr", kAny, false, run<[](Lanes l) { l.put(shr<7>(l.ia())); }>},
    {"sar", kAny, false, run<[](Lanes l) { l.put(sar<7>(l.ia())); }>},
    {"to_f32", kAny, true, run<[](Lanes l) { l.put(to_f32(l.ia())); }>},
    {"to_i32", Domain::kInt32, false, run<[](Lanes l) { l.put(to_i32(l.fa())); }>},
    {"load_words", kAny, false, run<[](Lanes l) { l.put(load_words(l.a)); }>},
    {"store_i16", kAny, false, run<[](Lanes l) {
       l.put(l.ib());
       store_i16(reinterpret_cast<int16_t*>(l.r), sar<16>(l.ia()));
     }>},
    {"store_i8", kAny, false, run<[](Lanes l) {
       l.put(l.ib());
       store_i8(reinterpret_cast<int8_t*>(l.r), sar<24>(l.ia()));
     }>},
    {"to_f32_wide", kAny, true, run<[](Lanes l) { l.put(to_f32_wide(l.ia(), l.ib())); }>},
    {"dot_pairs", kAny, false, run<[](Lanes l) { l.put(dot_pairs(l.ic(), l.ia(), l.ib())); }>},
    {"dot_quads", kAny, false, run<[](Lanes l) {
       const QuadWeights small = quad_weights(l.ib() & broadcast_i(0x7f7f7f7f));
       l.put(dot_quads(l.ic(), small, quad_row(reinterpret_cast<const int8_t*>(l.a))));
     }>},
    {"dot_quads_offset", kAny, false, run<[](Lanes l) {
       const int8_t* row = reinterpret_cast<const int8_t*>(l.a);
       const i32x16 sum = dot_quads(l.ic(), quad_weights_offset(l.ib()), quad_row(row));
       l.put(sum - broadcast_i(kQuadOffset * (row[0] + row[1] + row[2] + row[3])));
     }>},
    {"ldexp", Domain::kLdexp, true, run<[](Lanes l) { l.put(ldexp(l.fa(), l.fb())); }>},
    {"sum_halving", kAny, true, run<[](Lanes l) { l.put(sum_halving(l.fa())); }>},
    {"reduce_max", Domain::kInt32, true, run<[](Lanes l) { l.put(reduce_max(l.fa())); }>},
};

}  // namespace

extern const SimdOps simd_ops;
const SimdOps simd_ops = {
    kIsaName,
    kOps,
    static_cast<int>(sizeof(kOps) / sizeof(kOps[0])),
    [](const float* p, int n, float* lanes) { store(lanes, load_n(p, n)); },
    [](float* p, const float* lanes, int n) { store_n(p, load(lanes), n); },
};

}  // namespace isobit::kernels::ISOBIT_ISA_NAMESPACE
