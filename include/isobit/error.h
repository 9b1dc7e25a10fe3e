// SPDX-License-Identifier: Apache-2.0
// The exceptions of the library. Messages read "[class or op] argument: what was expected, what came".
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace isobit {

/// Base of everything the library throws on purpose.
class Error : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A value, shape, range or file content that is not acceptable (Python: ValueError).
class ValueError : public Error {
  using Error::Error;
};

/// A dtype or kind of object that is not acceptable (Python: TypeError).
class TypeError : public Error {
  using Error::Error;
};

/// A file or directory that does not exist (Python: FileNotFoundError).
class FileNotFound : public Error {
  using Error::Error;
};

/// Something that has a name in the interface but is not provided (Python: NotImplementedError).
class NotImplemented : public Error {
  using Error::Error;
};

/// A checkpoint whose family or options the library does not implement (Python: UnsupportedModel, a
/// ValueError).
class UnsupportedModel : public ValueError {
  using ValueError::ValueError;
};

/// A non-finite value that appeared inside a computation. The state the call was given is as before the call.
/// Names the smallest (position, layer, stage) of the sequence, whatever the split of the sequence into
/// calls.
class NonFiniteError : public ValueError {
 public:
  NonFiniteError(const std::string& what, int64_t position, int64_t layer, std::string stage)
      : ValueError(what), position(position), layer(layer), stage(std::move(stage)) {}
  int64_t position;   ///< absolute position in the sequence
  int64_t layer;      ///< layer index; the number of layers for the final norm and the head
  std::string stage;  ///< name of the stage, for example "attention scores"
};

}  // namespace isobit
