// MPI as this backend uses it: the processes that mpirun started, groups of them, and how they end together.
#pragma once

#define OMPI_SKIP_MPICXX  // the C interface alone
#define MPICH_SKIP_MPICXX
#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "meshwright/program.h"
#include "meshwright/result.h"
#include "process_world.h"

namespace meshwright {

// One in a process, whose threads but one know nothing of it. A call of MPI that fails ends all processes: they would wait for this one.
class World final : public ProcessWorld {
 public:
  // Starts MPI where a launcher started this process; else there is one process.
  World();
  // Every process leaves, or the others wait; with an exception under way it ends them.
  ~World() override;
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  [[nodiscard]] MPI_Comm letters() const { return letters_; }  // for what stages send to each other
  [[nodiscard]] int largest_tag() const { return largest_tag_; }

  // The communicator of these processes, ascending, this one among them, for one of the two streams: so what is on them is in order on each. Made at first; then
  // all of them ask for it, and for all others that they share, in the same order.
  MPI_Comm group(const std::vector<int>& ranks, Stream stream);

  std::vector<std::string> exchange(std::string_view name, std::string_view own) override;
  void broadcast(std::span<std::byte> bytes, int root) override { broadcast(bytes, root, MPI_COMM_WORLD); }
  void share(std::span<const std::span<std::byte>> parts, int first) override;

  // Of a call of MPI.
  void check(int code, const char* what) const;
  // Where all fail alike, the first one speaks.
  [[noreturn]] void end_all(const Error& error) const override;

 private:
  // What `root` has, on all of `comm` alike. Waits.
  void broadcast(std::span<std::byte> bytes, int root, MPI_Comm comm);

  bool is_started_ = false;
  int rank_ = 0, size_ = 1, largest_tag_ = 0;
  MPI_Comm letters_ = MPI_COMM_NULL;
  std::map<std::pair<std::vector<int>, Stream>, MPI_Comm> groups_;
};

// What a waiting process does: it looks again at once for a while, and then sleeps between, so that others on the same processor may compute.
class Patience {
 public:
  void pause();

 private:
  int looked_ = 0;
};

}  // namespace meshwright
