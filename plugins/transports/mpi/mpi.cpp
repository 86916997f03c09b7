// Ranks of MPI, as mpirun starts them.
#define OMPI_SKIP_MPICXX  // the C interface alone
#define MPICH_SKIP_MPICXX
#include <mpi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <map>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "meshwright/log.h"
#include "meshwright/plugin.h"
#include "meshwright/transport.h"

namespace meshwright {
namespace {

constexpr std::chrono::microseconds kPause(200);
constexpr int kTag = 0;

// Before MPI is started, which without a launcher may try to start one.
bool is_launched() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_SIZE"}) {
    if (std::getenv(name) != nullptr) return true;
  }
  return false;
}

class Mpi final : public Transport {
 public:
  Mpi() {
    if (!is_launched()) return;  // one rank
    check(MPI_Init(nullptr, nullptr), "MPI_Init");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(MPI_COMM_WORLD, &ranks_), "MPI_Comm_size");
    is_started_ = true;
  }
  ~Mpi() override {
    if (!is_started_) return;
    for (auto& [ranks, group] : groups_) MPI_Comm_free(&group);
    MPI_Finalize();
  }
  Mpi(const Mpi&) = delete;
  Mpi& operator=(const Mpi&) = delete;

 private:
  [[nodiscard]] int do_ranks() const override { return ranks_; }
  [[nodiscard]] int do_rank() const override { return rank_; }

  double do_round_trip_seconds(int first, int second, std::int64_t bytes, std::int64_t count) override {
    double seconds = 0;
    if (rank_ == first || rank_ == second) {
      make_room(bytes);
      exchange(first, second, bytes);
      const double begin = MPI_Wtime();
      for (std::int64_t i = 0; i < count; ++i) exchange(first, second, bytes);
      seconds = (MPI_Wtime() - begin) / static_cast<double>(count);
    }
    return told(seconds, first);
  }

  double do_message_seconds(int from, int to, std::int64_t bytes, std::int64_t count) override {
    double seconds = 0;
    if (rank_ == from || rank_ == to) {
      make_room(bytes);
      exchange(from, to, 1);
      const double begin = MPI_Wtime();
      for (std::int64_t i = 0; i < count; ++i) rank_ == from ? send(to, bytes) : receive(from, bytes);
      rank_ == from ? receive(to, 1) : send(from, 1);  // all are there
      seconds = (MPI_Wtime() - begin) / static_cast<double>(count);
    }
    return told(seconds, from);
  }

  double do_all_reduce_seconds(const std::vector<int>& group, std::int64_t bytes, std::int64_t count) override {
    double seconds = 0;
    if (std::ranges::find(group, rank_) != group.end()) {
      make_room(bytes);
      MPI_Comm comm = comm_of(group);
      const auto all_reduce = [&] {
        check(MPI_Allreduce(out_.data(), in_.data(), static_cast<int>(bytes / 4), MPI_FLOAT, MPI_SUM, comm), "MPI_Allreduce");
      };
      all_reduce();
      check(MPI_Barrier(comm), "MPI_Barrier");
      const double begin = MPI_Wtime();
      for (std::int64_t i = 0; i < count; ++i) all_reduce();
      double mine = (MPI_Wtime() - begin) / static_cast<double>(count);
      check(MPI_Allreduce(&mine, &seconds, 1, MPI_DOUBLE, MPI_MAX, comm), "MPI_Allreduce");
    }
    return told(seconds, group.front());
  }

  int do_from_first(int value) override { return static_cast<int>(told(value, 0)); }

  // One of this size there, and one back.
  void exchange(int first, int second, std::int64_t bytes) {
    if (rank_ == first) {
      send(second, bytes);
      receive(second, bytes);
    } else {
      receive(first, bytes);
      send(first, bytes);
    }
  }

  void send(int to, std::int64_t bytes) { check(MPI_Send(out_.data(), static_cast<int>(bytes), MPI_BYTE, to, kTag, MPI_COMM_WORLD), "MPI_Send"); }
  void receive(int from, std::int64_t bytes) {
    check(MPI_Recv(in_.data(), static_cast<int>(bytes), MPI_BYTE, from, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE), "MPI_Recv");
  }

  // What `root` has, on all ranks. They sleep until it comes, since MPI's own waiting keeps a processor busy on which others may be measured.
  double told(double value, int root) {
    if (!is_started_) return value;
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Ibcast(&value, 1, MPI_DOUBLE, root, MPI_COMM_WORLD, &request), "MPI_Ibcast");
    while (true) {
      int done = 0;
      check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
      if (done != 0) return value;
      std::this_thread::sleep_for(kPause);
    }
  }

  MPI_Comm comm_of(const std::vector<int>& group) {
    const auto [found, is_new] = groups_.try_emplace(group, MPI_COMM_NULL);
    if (!is_new) return found->second;
    MPI_Group all = MPI_GROUP_NULL, members = MPI_GROUP_NULL;
    check(MPI_Comm_group(MPI_COMM_WORLD, &all), "MPI_Comm_group");
    check(MPI_Group_incl(all, static_cast<int>(group.size()), group.data(), &members), "MPI_Group_incl");
    check(MPI_Comm_create_group(MPI_COMM_WORLD, members, kTag, &found->second), "MPI_Comm_create_group");
    MPI_Group_free(&members);
    MPI_Group_free(&all);
    return found->second;
  }

  // Whole floats.
  void make_room(std::int64_t bytes) {
    const auto floats = static_cast<std::size_t>(bytes + 3) / 4;
    if (out_.size() >= floats) return;
    try {
      out_.resize(floats);
      in_.resize(floats);
    } catch (const std::bad_alloc&) {
      fail("there is no memory for two messages of " + std::to_string(bytes) + " bytes; measure with smaller ones (message_bytes in [cluster.detect])");
    }
  }

  void check(int code, const char* what) const {
    if (code == MPI_SUCCESS) return;
    std::array<char, MPI_MAX_ERROR_STRING> text{};
    int length = 0;
    MPI_Error_string(code, text.data(), &length);
    fail(std::string(what) + ": " + std::string(text.data(), static_cast<std::size_t>(length)));
  }

  [[noreturn]] void fail(const std::string& message) const {
    log(LogLevel::error, "mpi", "rank " + std::to_string(rank_) + " ends all ranks: " + message);
    MPI_Abort(MPI_COMM_WORLD, static_cast<int>(ErrorCode::plugin_failed));
    std::abort();
  }

  bool is_started_ = false;
  int rank_ = 0, ranks_ = 1;
  std::vector<float> out_, in_;
  std::map<std::vector<int>, MPI_Comm> groups_;  // that this rank is in
};

// MPI is started once in a process, and can't be started again after its end.
void* create(const Config& /*config*/, Error& error) {
  static bool is_made = false;
  if (!is_made) {
    is_made = true;
    return static_cast<Transport*>(new Mpi);
  }
  error = internal_error("MPI can be started once in a process");
  return nullptr;
}

}  // namespace

MESHWRIGHT_PLUGIN("transports", "mpi", "0.1.0", "Apache-2.0", "Ranks that mpirun started, over MPI", nullptr, nullptr, 0, create, destroy_plugin<Transport>)

}  // namespace meshwright
