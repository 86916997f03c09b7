#include "post.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "execution.h"
#include "program_fixtures.h"

namespace meshwright {
namespace {

struct End {
  std::vector<std::int64_t> mesh;
  std::vector<std::int64_t> atoms;  // of the one dimension
  std::string layout;
};

// Stage 0 sends 0, 1, 2, ..., and stage 1 has what it asked for.
void expect_arrives(const End& from, const End& to, std::int64_t elements = 24) {
  Program sends, receives;
  sends.mesh = testing::mesh_of(from.mesh);
  receives.mesh = testing::mesh_of(to.mesh);
  const auto type_of = [&](const End& end, const Mesh& mesh) {
    AtomShape atoms = whole_dimensions({elements});
    if (end.atoms.size() > 1) {
      atoms.sizes = end.atoms;
      atoms.atoms_of_dimension = {2};
      atoms.paddable.assign(2, false);
    }
    return ShardedType{{DType::float32, {elements}}, atoms, parse_layout(end.layout, atoms, mesh.rank()).value()};
  };
  const ShardedType source = type_of(from, sends.mesh), target = type_of(to, receives.mesh);
  const std::int64_t senders = sends.mesh.devices(), receivers = receives.mesh.devices();
  Meeting meeting(senders + receivers, [](std::size_t) { return std::string("the message"); });
  Post post({&sends, &receives}, meeting);
  const Tensor whole = testing::count_up({elements});
  std::vector<Tensor> got;
  for (std::int64_t rank = 0; rank < receivers; ++rank) got.emplace_back(local_type(target, receives.mesh));
  const Message message{"x", false, 0, 1};
  std::vector<std::thread> threads;
  for (std::int64_t rank = 0; rank < receivers; ++rank) {
    threads.emplace_back([&, rank] {
      EXPECT_TRUE(post.receive(message, 3, rank, target, senders + rank, {1, 0, {senders + rank}}, got[static_cast<std::size_t>(rank)]));
      meeting.leave(senders + rank);
    });
  }
  for (std::int64_t rank = 0; rank < senders; ++rank) {
    post.send(message, 3, rank, source, cut(whole, source, sends.mesh, coordinates_of(sends.mesh, rank)));
    meeting.leave(rank);
  }
  for (std::thread& thread : threads) thread.join();
  for (std::int64_t rank = 0; rank < receivers; ++rank) {
    const Tensor expected = cut(whole, target, receives.mesh, coordinates_of(receives.mesh, rank));
    EXPECT_TRUE(std::ranges::equal(got[static_cast<std::size_t>(rank)].bytes(), expected.bytes())) << rank;
  }
  EXPECT_FALSE(meeting.failure());
}

TEST(Post, BetweenEqualLayouts) { expect_arrives({{4}, {}, "S0"}, {{4}, {}, "S0"}); }
TEST(Post, BetweenMeshesOfOtherShapes) {
  expect_arrives({{4}, {}, "S0"}, {{2, 2}, {}, "S01"});
  expect_arrives({{2, 2}, {}, "S1"}, {{4}, {}, "S0"});
}
TEST(Post, BetweenMeshesOfOtherSizes) {
  expect_arrives({{2}, {}, "S0"}, {{}, {}, "R"});
  expect_arrives({{}, {}, "R"}, {{3}, {}, "S0"});
}
TEST(Post, BetweenReplicatedAndSharded) {
  expect_arrives({{2}, {}, "R"}, {{4}, {}, "S0"});
  expect_arrives({{4}, {}, "S0"}, {{2}, {}, "R"});
}
TEST(Post, BetweenOtherAtomsOfOneDimension) {
  expect_arrives({{2}, {4, 6}, "[R S0]"}, {{2}, {}, "S0"});
  expect_arrives({{2}, {}, "S0"}, {{2}, {4, 6}, "[R S0]"});
}

TEST(Post, WhoWaitsForWhatNobodySendsIsTold) {
  Program stage;
  Meeting meeting(2, [](std::size_t number) { return "instruction " + std::to_string(number); });
  Post post({&stage, &stage}, meeting);
  Tensor result(TensorType{DType::float32, {1}});
  std::thread receiver([&] {
    EXPECT_FALSE(post.receive({"x", false, 0, 1}, 0, 0, {result.type(), whole_dimensions({1}), Layout(0)}, 1, {7, 0, {1}}, result));
    meeting.leave(1);
  });
  meeting.leave(0);
  receiver.join();
  ASSERT_TRUE(meeting.failure());
  EXPECT_EQ(meeting.failure()->message, "instruction 7: nobody sends it");
}

}  // namespace
}  // namespace meshwright
