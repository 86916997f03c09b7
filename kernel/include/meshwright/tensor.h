// A tensor in this process' memory: dense, row-major, owned but for what `reshaped` and `in` give. What op families compute with when they say what an op
// means (op.h, evaluate); nobody measures anything by it. Booleans are bytes of 0 or 1.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "meshwright/export.h"
#include "meshwright/tensor_type.h"

namespace meshwright {

class Tensor {
 public:
  Tensor() = default;
  // Of zeros.
  explicit Tensor(TensorType type) : Tensor(uncleared(std::move(type))) { clear(); }
  Tensor(const Tensor& other) : type_(other.type_), elements_(other.elements_) {
    allocate(other.bytes_.size());
    std::ranges::copy(other.bytes_, bytes_.begin());
  }
  Tensor(Tensor&& other) noexcept { swap(other); }
  Tensor& operator=(Tensor other) noexcept {
    swap(other);
    return *this;
  }
  ~Tensor() = default;

  // Holds anything until each of its elements is written.
  static Tensor uncleared(TensorType type) {
    Tensor made;
    made.elements_ = type.elements();
    made.allocate(static_cast<std::size_t>(type.bytes()));
    made.type_ = std::move(type);
    return made;
  }

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

  // Zeros everywhere.
  void clear() { std::ranges::fill(bytes_, std::byte{0}); }

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
  void allocate(std::size_t bytes) {
    owned_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
    bytes_ = {owned_.get(), bytes};
  }
  [[nodiscard]] MESHWRIGHT_API double get_other(std::int64_t index) const;  // of a dtype that is not float32
  MESHWRIGHT_API void set_other(std::int64_t index, double value);

  TensorType type_;
  std::int64_t elements_ = 0;
  std::unique_ptr<std::byte[]> owned_;
  std::span<std::byte> bytes_;  // its own, or those of what it is seen as
};

// The tensors one after the other, none of them copied, as an initializer list would do.
template <class... Tensors>
std::vector<Tensor> listed(Tensors... tensors) {
  std::vector<Tensor> made;
  made.reserve(sizeof...(tensors));
  (made.push_back(std::move(tensors)), ...);
  return made;
}

// Steps through the elements of a shape: row-major strides, and the position of an index.
MESHWRIGHT_API std::vector<std::int64_t> strides_of(const std::vector<std::int64_t>& shape);

}  // namespace meshwright
