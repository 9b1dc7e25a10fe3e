// SPDX-License-Identifier: Apache-2.0
// What a layer carries from call to call, seen from outside: how far it is, and how a call that fails leaves
// no trace.
#pragma once

#include <cstdint>
#include <memory>

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
  /// Tokens consumed, of the row that is furthest.
  virtual int64_t position() const = 0;
  virtual void reset() = 0;
  /// A call that appends up to `tokens` tokens to each row.
  virtual std::unique_ptr<Transaction> begin(int64_t tokens) = 0;
};

}  // namespace isobit
