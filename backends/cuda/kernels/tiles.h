// A tile of a product of matrices, which the threads of a block add up: so many terms at a time of both factors lie in
// memory that they share.
#pragma once

#include "blocks.h"
#include "movement.h"

#if defined(__CUDACC__)
#include <cuda_pipeline_primitives.h>
#include <mma.h>

#include <type_traits>
#endif

namespace meshwright::cuda {

constexpr int kTile = 128;  // rows of a tile, and its columns

// Which of three ways a tile is added up. Of bfloat16 that lies in pieces of 16 bytes by tensor cores, of other float32
// and bfloat16 in float32, of all else in float64, one number after the other.
enum class TileWay : int32_t { plain, floats, tensors };

// A factor: of each place, a row of the product or a column, so many terms. A list says where places or terms stand,
// -1: they are zeros; null: one after the other.
struct TileFactor {
  const void* data = nullptr;
  Element element = Element::float32;
  int64_t first = 0;  // the tile's first place
  int64_t places = 0, terms = 0;
  int64_t place_stride = 0, term_stride = 0;  // one of them is 1
  const int64_t *place_list = nullptr, *term_list = nullptr;
};

// Where a number of the tile stands; -1: nowhere, it is zero.
MESHWRIGHT_DEVICE int64_t offset_in(const TileFactor& factor, int64_t of_tile, int64_t term) {
  int64_t place = factor.first + of_tile;
  if (place >= factor.places || term >= factor.terms) return -1;
  if (factor.place_list != nullptr) place = factor.place_list[place];
  if (factor.term_list != nullptr) term = factor.term_list[term];
  return place < 0 || term < 0 ? -1 : place * factor.place_stride + term * factor.term_stride;
}

// Each way gives `put(row, column, sum)` every number of the tile, also those that are outside of the product.
template <class Put>
MESHWRIGHT_DEVICE void add_up_plainly(const TileFactor& left, const TileFactor& right, int thread, const Put& put) {
  for (int i = thread; i < kTile * kTile; i += kThreads) {
    const int row = i / kTile, column = i % kTile;
    const bool is_inside = offset_in(left, row, 0) >= 0 && offset_in(right, column, 0) >= 0;
    double sum = 0;
    for (int64_t term = 0; is_inside && term < left.terms; ++term)
      sum += load(left.data, left.element, offset_in(left, row, term)) *
             load(right.data, right.element, offset_in(right, column, term));
    put(row, column, sum);
  }
}

// In float32: a thread has kOwn times kOwn numbers of the tile, at a distance of kAcross, so that threads side by side
// read what lies in different banks, as lines of an odd length do.
constexpr int kAcross = kThreads == 1 ? 1 : 16, kOwn = kTile / kAcross;
constexpr int kFloatTerms = 16, kFloatLine = kFloatTerms + 1;

MESHWRIGHT_DEVICE void stage_floats(const TileFactor& factor, int64_t term, float* to, int thread) {
  const bool by_terms = factor.term_stride == 1;  // threads side by side take what lies side by side
  for (int i = thread; i < kTile * kFloatTerms; i += kThreads) {
    const int place = by_terms ? i / kFloatTerms : i % kTile, own_term = by_terms ? i % kFloatTerms : i / kTile;
    const int64_t at = offset_in(factor, place, term + own_term);
    to[place * kFloatLine + own_term] = at < 0 ? 0.0F : load<float>(factor.data, factor.element, at);
  }
}

template <class Put>
MESHWRIGHT_DEVICE void add_up_floats(const TileFactor& left, const TileFactor& right, unsigned char* memory, int thread,
                                     const Put& put) {
  float *const lefts = reinterpret_cast<float*>(memory), *const rights = lefts + kTile * kFloatLine;
  const int row = thread / kAcross, column = thread % kAcross;
  float sums[kOwn][kOwn] = {};
  for (int64_t term = 0; term < left.terms; term += kFloatTerms) {
    stage_floats(left, term, lefts, thread);
    stage_floats(right, term, rights, thread);
    meet_block();
    for (int own_term = 0; own_term < kFloatTerms; ++own_term) {
      float of_columns[kOwn];
      MESHWRIGHT_UNROLL
      for (int c = 0; c < kOwn; ++c) of_columns[c] = rights[(column + c * kAcross) * kFloatLine + own_term];
      MESHWRIGHT_UNROLL
      for (int r = 0; r < kOwn; ++r) {
        const float of_row = lefts[(row + r * kAcross) * kFloatLine + own_term];
        MESHWRIGHT_UNROLL
        for (int c = 0; c < kOwn; ++c) sums[r][c] += of_row * of_columns[c];
      }
    }
    meet_block();
  }
  MESHWRIGHT_UNROLL
  for (int r = 0; r < kOwn; ++r) {
    MESHWRIGHT_UNROLL
    for (int c = 0; c < kOwn; ++c) put(row + r * kAcross, column + c * kAcross, sums[r][c]);
  }
}

constexpr int kTensorTerms = 32;
constexpr int kPiece = sizeof(SixteenBytes) / sizeof(BFloat16);

// A piece, or zeros, goes to shared memory while the thread goes on.
MESHWRIGHT_DEVICE void copy_piece_later(const BFloat16* from, BFloat16* to, bool is_there) {
#if defined(__CUDACC__)
  __pipeline_memcpy_async(to, from, sizeof(SixteenBytes), is_there ? 0 : sizeof(SixteenBytes));
#else
  for (int i = 0; i < kPiece; ++i) to[i] = is_there ? from[i] : BFloat16{};
#endif
}
// A group of copies ends here.
MESHWRIGHT_DEVICE void end_pieces() {
#if defined(__CUDACC__)
  __pipeline_commit();
#endif
}
// All of this thread's groups but the last one have arrived.
MESHWRIGHT_DEVICE void wait_for_pieces() {
#if defined(__CUDACC__)
  __pipeline_wait_prior(1);
#endif
}

MESHWRIGHT_DEVICE void wait_for_all_pieces() {
#if defined(__CUDACC__)
  __pipeline_wait_prior(0);
#endif
}

// How tensor cores find a factor: in lines as it lies, of a place's terms, or of a term's places (`kTurned`). A piece
// that is left free behind each line keeps lines that are read together in different banks.
template <bool kTurned>
struct TensorStage {
  static constexpr int kLines = kTurned ? kTensorTerms : kTile, kPieces = (kTurned ? kTile : kTensorTerms) / kPiece;
  static constexpr int kLine = (kPieces + 1) * kPiece, kSize = kLines * kLine;
  MESHWRIGHT_DEVICE static constexpr int at(int place, int term) {
    return kTurned ? term * kLine + place : place * kLine + term;
  }

  // The terms from this one on; they are there when `wait_for_pieces` says so.
  MESHWRIGHT_DEVICE static void begin(const TileFactor& factor, int64_t term, BFloat16* to, int thread) {
    MESHWRIGHT_UNROLL
    for (int i = thread; i < kLines * kPieces; i += kThreads) {
      const int line = i / kPieces, along = i % kPieces * kPiece;
      const int64_t from = offset_in(factor, kTurned ? along : line, term + (kTurned ? line : along));
      copy_piece_later(static_cast<const BFloat16*>(factor.data) + (from < 0 ? 0 : from), to + line * kLine + along,
                       from >= 0);
    }
  }
};

#if defined(__CUDACC__)
// A warp has 64 rows and 32 columns of the tile.
template <bool kLeftTurned, bool kRightTurned>
class TensorSums {
 public:
  __device__ TensorSums() {
    for (auto& row : sums_) {
      for (Sum& sum : row) nvcuda::wmma::fill_fragment(sum, 0.0F);
    }
  }

  __device__ void add(const BFloat16* lefts, const BFloat16* rights, int thread) {
    const int row = first_row(thread), column = first_column(thread);
    // More at a time would not have the registers.
    MESHWRIGHT_NO_UNROLL
    for (int term = 0; term < kTensorTerms; term += kSide) {
      Right right[kAside];
      MESHWRIGHT_UNROLL
      for (int c = 0; c < kAside; ++c)
        nvcuda::wmma::load_matrix_sync(right[c], numbers(rights + RightStage::at(column + c * kSide, term)),
                                       RightStage::kLine);
      MESHWRIGHT_UNROLL
      for (int r = 0; r < kBelow; ++r) {
        Left left;
        nvcuda::wmma::load_matrix_sync(left, numbers(lefts + LeftStage::at(row + r * kSide, term)), LeftStage::kLine);
        MESHWRIGHT_UNROLL
        for (int c = 0; c < kAside; ++c) nvcuda::wmma::mma_sync(sums_[r][c], left, right[c], sums_[r][c]);
      }
    }
  }

  // `memory`: nobody reads the stages any more.
  template <class Put>
  __device__ void put(unsigned char* memory, int thread, const Put& put) const {
    float* const own = reinterpret_cast<float*>(memory) + thread / kWarp * kSide * kSide;
    MESHWRIGHT_UNROLL
    for (int r = 0; r < kBelow; ++r) {
      MESHWRIGHT_UNROLL
      for (int c = 0; c < kAside; ++c) {
        nvcuda::wmma::store_matrix_sync(own, sums_[r][c], kSide, nvcuda::wmma::mem_row_major);
        meet_lanes();
        for (int i = thread % kWarp; i < kSide * kSide; i += kWarp)
          put(first_row(thread) + r * kSide + i / kSide, first_column(thread) + c * kSide + i % kSide, own[i]);
        meet_lanes();
      }
    }
  }

 private:
  static constexpr int kSide = 16, kBelow = 4, kAside = 2, kWarpsAside = kTile / (kAside * kSide);
  using LeftStage = TensorStage<kLeftTurned>;
  using RightStage = TensorStage<kRightTurned>;
  template <bool kByRows>
  using Layout = std::conditional_t<kByRows, nvcuda::wmma::row_major, nvcuda::wmma::col_major>;
  using Left = nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, kSide, kSide, kSide, __nv_bfloat16, Layout<!kLeftTurned>>;
  using Right =
      nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, kSide, kSide, kSide, __nv_bfloat16, Layout<kRightTurned>>;
  using Sum = nvcuda::wmma::fragment<nvcuda::wmma::accumulator, kSide, kSide, kSide, float>;

  __device__ static const __nv_bfloat16* numbers(const BFloat16* bits) {
    return reinterpret_cast<const __nv_bfloat16*>(bits);
  }
  __device__ static int first_row(int thread) { return thread / kWarp / kWarpsAside * kBelow * kSide; }
  __device__ static int first_column(int thread) { return thread / kWarp % kWarpsAside * kAside * kSide; }

  Sum sums_[kBelow][kAside];
};
#else
template <bool kLeftTurned, bool kRightTurned>
class TensorSums {
 public:
  void add(const BFloat16* lefts, const BFloat16* rights, int /*thread*/) {
    for (int row = 0; row < kTile; ++row) {
      for (int column = 0; column < kTile; ++column) {
        for (int term = 0; term < kTensorTerms; ++term)
          sums_[row][column] += to_float(lefts[TensorStage<kLeftTurned>::at(row, term)]) *
                                to_float(rights[TensorStage<kRightTurned>::at(column, term)]);
      }
    }
  }
  template <class Put>
  void put(unsigned char* /*memory*/, int /*thread*/, const Put& put) const {
    for (int row = 0; row < kTile; ++row) {
      for (int column = 0; column < kTile; ++column) put(row, column, sums_[row][column]);
    }
  }

 private:
  float sums_[kTile][kTile] = {};
};
#endif

// While the tensor cores have the terms that are staged, the next ones are on their way to the other half of the
// memory.
template <bool kLeftTurned, bool kRightTurned, class Put>
MESHWRIGHT_DEVICE void add_up_by_tensors(const TileFactor& left, const TileFactor& right, unsigned char* memory,
                                         int thread, const Put& put) {
  using Lefts = TensorStage<kLeftTurned>;
  using Rights = TensorStage<kRightTurned>;
  BFloat16* const stages = reinterpret_cast<BFloat16*>(memory);
  const auto begin = [&](int64_t term, int half) {
    BFloat16* const stage = stages + half * (Lefts::kSize + Rights::kSize);
    Lefts::begin(left, term, stage, thread);
    Rights::begin(right, term, stage + Lefts::kSize, thread);
    end_pieces();
    return stage;
  };
  TensorSums<kLeftTurned, kRightTurned> sums;
  const BFloat16* stage = begin(0, 0);
  int half = 0;
  for (int64_t term = 0; term < left.terms; term += kTensorTerms) {
    half = 1 - half;
    const BFloat16* const next = begin(term + kTensorTerms, half);
    wait_for_pieces();
    meet_block();
    sums.add(stage, stage + Lefts::kSize, thread);
    meet_block();
    stage = next;
  }
  wait_for_all_pieces();
  meet_block();
  sums.put(memory, thread, put);
  meet_block();
}

// What a tile's threads share, in bytes, by whatever way, and the alignment with which tensor cores are given it.
constexpr int kTileAlignment = 32;
constexpr int kTileMemory = 2 * 2 * TensorStage<false>::kSize * static_cast<int>(sizeof(BFloat16));
static_assert(TensorStage<true>::kSize <= TensorStage<false>::kSize);
static_assert(TensorStage<false>::at(16, 0) * sizeof(BFloat16) % kTileAlignment == 0);
static_assert(TensorStage<true>::at(0, 16) * sizeof(BFloat16) % kTileAlignment == 0);
static_assert(TensorStage<true>::kSize * sizeof(BFloat16) % kTileAlignment == 0);
static_assert(2 * kTile * kFloatLine * static_cast<int>(sizeof(float)) <= kTileMemory);
static_assert(kBlock / kWarp * 16 * 16 * static_cast<int>(sizeof(float)) <= kTileMemory);

// `kLeftTurned`, `kRightTurned`: of tensor cores, whether the factor's places lie side by side, and not its terms.
template <bool kLeftTurned, bool kRightTurned, class Put>
MESHWRIGHT_DEVICE void add_up_tile(TileWay way, const TileFactor& left, const TileFactor& right, unsigned char* memory,
                                   int thread, const Put& put) {
  switch (way) {
    case TileWay::plain:
      return add_up_plainly(left, right, thread, put);
    case TileWay::floats:
      return add_up_floats(left, right, memory, thread, put);
    case TileWay::tensors:
      return add_up_by_tensors<kLeftTurned, kRightTurned>(left, right, memory, thread, put);
  }
}

}  // namespace meshwright::cuda
