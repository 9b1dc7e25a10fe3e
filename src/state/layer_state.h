// SPDX-License-Identifier: Apache-2.0
// What a layer carries from call to call, seen from outside: how far it is, and how a call that fails leaves
// no trace.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

namespace isobit {

class LayerState {
 public:
  /// One call on a state: what it did becomes visible with commit(), and is undone without it.
  class Transaction {
   public:
    virtual ~Transaction() = default;
    virtual void commit() = 0;
  };

  virtual ~LayerState() = default;
  virtual int64_t batch_size() const = 0;
  /// Tokens that a row has consumed.
  virtual int64_t tokens_of(int64_t row) const = 0;
  virtual void reset() = 0;
  /// A call that appends tokens[row] tokens to each row.
  virtual std::unique_ptr<Transaction> begin(std::span<const int64_t> tokens) = 0;
};

}  // namespace isobit
