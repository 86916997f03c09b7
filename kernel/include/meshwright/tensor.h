// A tensor in this process' memory: dense, row-major, owned but for what `reshaped` and `in` give. What op families compute with when they say what an op
// means (op.h, evaluate); nobody measures anything by it. Booleans are bytes of 0 or 1.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "meshwright/export.h"
#include "meshwright/tensor_type.h"

namespace meshwright {

class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(TensorType type)
      : type_(std::move(type)), elements_(type_.elements()), owned_(static_cast<std::size_t>(type_.bytes()), std::byte{0}), bytes_(owned_) {}
  Tensor(const Tensor& other) : type_(other.type_), elements_(other.elements_), owned_(other.bytes_.begin(), other.bytes_.end()), bytes_(owned_) {}
  Tensor(Tensor&& other) noexcept { swap(other); }
  Tensor& operator=(Tensor other) noexcept {
    swap(other);
    return *this;
  }
  ~Tensor() = default;

  // All of `whole` in another shape. Owns nothing: it must not outlive `whole`, nor be written to. A copy of it owns its elements.
  static Tensor reshaped(const Tensor& whole, TensorType type) {
    assert(type.bytes() == whole.type_.bytes());
    Tensor seen;
    seen.type_ = std::move(type);
    seen.elements_ = whole.elements_;
    seen.bytes_ = whole.bytes_;
    return seen;
  }

  // Lies in this memory, with what stands there. Owns nothing: it must not outlive the memory. A copy of it owns its elements.
  static Tensor in(std::span<std::byte> memory, TensorType type) {
    assert(type.bytes() == static_cast<std::int64_t>(memory.size()));
    Tensor there;
    there.elements_ = type.elements();
    there.type_ = std::move(type);
    there.bytes_ = memory;
    return there;
  }

  void swap(Tensor& other) noexcept {
    std::swap(type_, other.type_);
    std::swap(elements_, other.elements_);
    std::swap(owned_, other.owned_);
    std::swap(bytes_, other.bytes_);
  }

  [[nodiscard]] const TensorType& type() const { return type_; }
  [[nodiscard]] const std::vector<std::int64_t>& shape() const { return type_.shape; }
  [[nodiscard]] std::int64_t elements() const { return elements_; }

  // The elements as T, whose size is that of the dtype: float, double, std::int64_t, std::int32_t, std::uint8_t ...
  template <class T>
  [[nodiscard]] std::span<T> as() {
    assert(sizeof(T) == static_cast<std::size_t>(size_bytes(type_.dtype)));
    return {reinterpret_cast<T*>(bytes_.data()), bytes_.size() / sizeof(T)};
  }
  template <class T>
  [[nodiscard]] std::span<const T> as() const {
    assert(sizeof(T) == static_cast<std::size_t>(size_bytes(type_.dtype)));
    return {reinterpret_cast<const T*>(bytes_.data()), bytes_.size() / sizeof(T)};
  }

  // The elements as they lie in memory, whatever their dtype.
  [[nodiscard]] std::span<std::byte> bytes() { return bytes_; }
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

  // One element as a double, and back, rounded to the dtype: float32, float64, integers and booleans.
  [[nodiscard]] double get(std::int64_t index) const {
    if (type_.dtype == DType::float32) return reinterpret_cast<const float*>(bytes_.data())[index];
    return get_other(index);
  }
  void set(std::int64_t index, double value) {
    if (type_.dtype == DType::float32) reinterpret_cast<float*>(bytes_.data())[index] = static_cast<float>(value);
    else set_other(index, value);
  }

 private:
  [[nodiscard]] MESHWRIGHT_API double get_other(std::int64_t index) const;  // of a dtype that is not float32
  MESHWRIGHT_API void set_other(std::int64_t index, double value);

  TensorType type_;
  std::int64_t elements_ = 0;
  std::vector<std::byte> owned_;
  std::span<std::byte> bytes_;  // its own, or those of what it is seen as
};

// Steps through the elements of a shape: row-major strides, and the position of an index.
MESHWRIGHT_API std::vector<std::int64_t> strides_of(const std::vector<std::int64_t>& shape);

}  // namespace meshwright
