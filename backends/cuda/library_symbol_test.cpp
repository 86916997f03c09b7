#include "library_symbol.h"

#include <gtest/gtest.h>

namespace meshwright::cuda {
namespace {

TEST(OpenFirst, LooksIntoFoldersForWhatTheLoaderDoesNotFind) {
  EXPECT_EQ(open_first({"matmul.so"}, ""), nullptr);
  EXPECT_EQ(open_first({"matmul.so"}, "/no such folder"), nullptr);
  void* library = open_first({"matmul.so"}, "/no such folder:" OP_PLUGINS);
  EXPECT_NE(library, nullptr);
  EXPECT_EQ(open_first({"matmul.so"}, OP_PLUGINS ":/no such folder"), library);
}

// The names' order counts more than where they are.
TEST(OpenFirst, TakesTheFirstName) {
  void* matmul = open_first({OP_PLUGINS "/matmul.so"}, "");
  ASSERT_NE(matmul, nullptr);
  EXPECT_EQ(open_first({"no such library", "matmul.so", "libc.so.6"}, OP_PLUGINS), matmul);
  EXPECT_NE(open_first({"libc.so.6", "matmul.so"}, OP_PLUGINS), matmul);
}

}  // namespace
}  // namespace meshwright::cuda
