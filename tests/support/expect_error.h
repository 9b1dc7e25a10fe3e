// SPDX-License-Identifier: Apache-2.0
// A refusal of the right type whose message has all its parts.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace isobit::testing {

template <typename Error, typename Call>
void expect_error(const Call& call, const std::vector<std::string>& parts) {
  try {
    call();
  } catch (const Error& error) {
    for (const std::string& part : parts)
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
          << "expected \"" << part << "\" in \"" << error.what() << "\"";
    return;
  } catch (const std::exception& other) {
    ADD_FAILURE() << "another exception: " << other.what();
    return;
  }
  ADD_FAILURE() << "no exception";
}

}  // namespace isobit::testing
