// For tests: what a descriptor of cuDNN's has.
#pragma once

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "dnn.h"

namespace meshwright::cuda {

inline const DnnValue* find_value(const DnnDescriptor& of, int attribute) {
  const auto found = std::ranges::find(of.values, attribute, &DnnValue::attribute);
  return found == of.values.end() ? nullptr : &*found;
}

inline const DnnValue& value(const DnnDescriptor& of, int attribute) {
  const DnnValue* found = find_value(of, attribute);
  if (found == nullptr) throw std::out_of_range("attribute " + std::to_string(attribute));
  return *found;
}

template <class Number>
Number number(const DnnDescriptor& of, int attribute) {
  const DnnValue& found = value(of, attribute);
  Number number = 0;
  if (found.bytes.size() != sizeof number) throw std::length_error("attribute " + std::to_string(attribute));
  std::memcpy(&number, found.bytes.data(), sizeof number);
  return number;
}

inline std::vector<std::int64_t> numbers(const DnnDescriptor& of, int attribute) {
  const DnnValue& found = value(of, attribute);
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(found.count));
  if (found.bytes.size() != numbers.size() * sizeof(std::int64_t))
    throw std::length_error("attribute " + std::to_string(attribute));
  std::memcpy(numbers.data(), found.bytes.data(), found.bytes.size());
  return numbers;
}

}  // namespace meshwright::cuda
