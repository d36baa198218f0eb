#include "tests/repository/layering.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/repository/sources.hpp"

namespace troupe::repository {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Layering, TheRepositoryKeepsItsLayers) {
  const auto& files = sources();
  EXPECT_GT(files.size(), 50u);
  for (const auto& [path, text] : files)
    for (const std::string& violation : violations(path, text)) ADD_FAILURE() << violation;
}

TEST(Layering, FewHeadersReachLibrariesThatTakeLongToCompile) {
  EXPECT_THAT(reach_violations(sources()), IsEmpty()) << "headers that may are listed in kReach, layering.cpp";
}

TEST(Layering, FindsTheWayFromAHeaderToALibrary) {
  auto files = sources();
  files["graph/a.hpp"] = "#include <troupe/graph/b.hpp>\n";
  files["graph/b.hpp"] = "#include <string>\n#include <nlohmann/json.hpp>\n";
  files["graph/c.hpp"] = "#include <nlohmann/json_fwd.hpp>\n#include <troupe/graph/d.hpp>\n";
  files["graph/d.hpp"] = "#include <troupe/graph/c.hpp>\n";
  EXPECT_THAT(reach_violations(files),
              ElementsAre("graph/a.hpp reaches nlohmann-json: graph/a.hpp > graph/b.hpp > nlohmann/json.hpp",
                          "graph/b.hpp reaches nlohmann-json: graph/b.hpp > nlohmann/json.hpp"));
  files = sources();
  files.erase("kernels/cpu/onednn.hpp");
  EXPECT_THAT(reach_violations(files), ElementsAre("kernels/cpu/onednn.hpp may reach oneDNN, but does not exist"));
}

TEST(Layering, AllowsTheOwnFolderAndLowerRanks) {
  EXPECT_THAT(violations("actors/a.cpp",
                         "#include <troupe/actors/b.hpp>\n#include <troupe/scheduler/plan/plan.hpp>\n"
                         "#include <troupe/kernels/kernels.hpp>\n#include <troupe/graph/op.hpp>\n"
                         "#include <troupe/messages/tensor.hpp>\n"),
              IsEmpty());
  EXPECT_THAT(violations("README.md", "#include \"anything\"\n"), IsEmpty());
}

TEST(Layering, CatchesHigherRanksAndSiblings) {
  EXPECT_THAT(violations("messages/a.hpp", "\n#include <troupe/graph/op.hpp>  // why not\n"),
              ElementsAre("messages/a.hpp:2: messages must not include graph: graph/op.hpp"));
  EXPECT_THAT(violations("graph/a.hpp", "#include <troupe/devices/device.hpp>"),
              ElementsAre("graph/a.hpp:1: graph must not include devices: devices/device.hpp"));
  EXPECT_EQ(violations("kernels/a.hpp", "  #  include \"scheduler/plan/plan.hpp\"").size(), 1u);
  EXPECT_EQ(violations("apps/a.cpp", "#include \"tools/launch/launch.hpp\"").size(), 1u);
  EXPECT_EQ(violations("tools/bench/a.cpp", "#include \"apps/serve/rest_door.hpp\"").size(), 1u);
  EXPECT_EQ(violations("actors/a.cpp", "#include \"apps/a.hpp\"").size(), 1u);
  EXPECT_EQ(violations("actors/a.cpp", "#include \"apps/serve/proto/serving.pb.h\"").size(), 1u);
  EXPECT_EQ(violations("actors/a.cpp", "#include \"tests/kernels/run_kernel.hpp\"").size(), 1u);
}

TEST(Layering, ToolsSpeakProtocolsOfPrograms) {
  EXPECT_THAT(violations("tools/bench/a.cpp", "#include \"apps/serve/proto/serving.grpc.pb.h\""), IsEmpty());
  EXPECT_EQ(violations("tools/top/a.cpp", "#include \"apps/serve/proto/serving.grpc.pb.h\"").size(), 1u);
}

TEST(Layering, RoomsIncludeLowerFloorsOnly) {
  const auto allowed_own = [](const std::string& path, const std::string& header) {
    return violations(path, "#include <troupe/" + header + ">\n").empty();
  };
  EXPECT_TRUE(allowed_own("actors/session/session.cpp", "actors/cluster/task.hpp"));
  EXPECT_TRUE(allowed_own("graph/ops/math.cpp", "graph/op.hpp"));
  EXPECT_TRUE(allowed_own("scheduler/run/executor.cpp", "scheduler/plan/plan.hpp"));
  EXPECT_TRUE(allowed_own("kernels/cuda/linear.cpp", "kernels/common/matmul_shape.hpp"));
  // Upwards, and between rooms of one floor: in each folder.
  for (const auto& [path, header] : std::vector<std::pair<std::string, std::string>>{
           {"messages/tensor.hpp", "messages/caf/protocol.hpp"},
           {"graph/op.cpp", "graph/builder/core.hpp"},
           {"graph/builder/core.hpp", "graph/formats/serialize.hpp"},
           {"graph/optimizers/optimizers.cpp", "graph/training/towers.hpp"},
           {"devices/device.hpp", "devices/cpu/cpu_device.hpp"},
           {"devices/cpu/cpu_device.cpp", "devices/storage/file_system.hpp"},
           {"scheduler/plan/plan.cpp", "scheduler/run/executor.hpp"},
           {"scheduler/run/executor.cpp", "scheduler/training/coordinator.hpp"},
           {"kernels/cpu/linear.cpp", "kernels/cuda/conv_plan.hpp"},
           {"kernels/cuda/linear.cpp", "kernels/cpu/linear.hpp"},
           {"kernels/common/array.cpp", "kernels/cpu/finite.hpp"},
           {"kernels/cpu/linear.cpp", "kernels/kernels.hpp"},
           {"actors/base/counted.cpp", "actors/steps/step.hpp"},
           {"actors/wire/wire.cpp", "actors/base/counted.hpp"},
           {"actors/cluster/task.cpp", "actors/session/session.hpp"},
           {"actors/training/model.cpp", "troupe.hpp"},
       })
    EXPECT_FALSE(allowed_own(path, header)) << path << " " << header;
  for (const auto& [path, header] : std::vector<std::pair<std::string, std::string>>{
           {"apps/mnist/main.cpp", "apps/node/options.hpp"}, {"tools/top/page.cpp", "tools/launch/launch.hpp"}})
    EXPECT_THAT(violations(path, "#include \"" + header + "\"\n"), ElementsAre(HasSubstr("must not include")))
        << path << " includes " << header;
  EXPECT_THAT(violations("actors/kitchen/sink.cpp", "#include <troupe/actors/base/counted.hpp>\n"),
              ElementsAre(HasSubstr("actors/kitchen has no floor")));
}

TEST(Layering, TheLibraryIsIncludedAsItsUsersDo) {
  EXPECT_THAT(violations("graph/a.cpp", "#include \"troupe/graph/a.hpp\"\n#include <troupe/graph/op.hpp>\n"),
              IsEmpty());
  EXPECT_THAT(violations("graph/a.cpp", "#include \"graph/op.hpp\"\n"),
              ElementsAre("graph/a.cpp:1: \"graph/op.hpp\" is included as <troupe/graph/op.hpp>"));
  EXPECT_EQ(violations("apps/a.cpp", "#include <troupe/apps/a.hpp>\n").size(), 1u);
  EXPECT_THAT(violations("apps/a.cpp", "#include <troupe/troupe.hpp>\n#include \"apps/a.hpp\"\n"), IsEmpty());
}

TEST(Layering, CatchesPathsThatDoNotBeginAtTheRoot) {
  EXPECT_EQ(violations("graph/a.cpp", "#include \"op.hpp\"").size(), 1u);
  EXPECT_EQ(violations("graph/a.cpp", "#include \"../messages/tensor.hpp\"").size(), 1u);
  EXPECT_EQ(violations("graph/a.cpp", "#include HEADER").size(), 1u);
}

TEST(Layering, LibrariesStayInTheirFolders) {
  const auto allowed = [](std::string_view path, std::string header) {
    return violations(path, "#include <" + header + ">\n").empty();
  };
  EXPECT_TRUE(allowed("messages/a.hpp", "vector"));
  EXPECT_TRUE(allowed("messages/a.hpp", "sys/socket.h"));
  EXPECT_TRUE(allowed("scheduler/a.hpp", "fmt/core.h"));
  EXPECT_TRUE(allowed("messages/caf/protocol.hpp", "caf/all.hpp"));
  EXPECT_TRUE(allowed("messages/caf/types.hpp", "caf/all.hpp"));
  EXPECT_FALSE(allowed("messages/frames.hpp", "caf/all.hpp"));
  EXPECT_FALSE(allowed("scheduler/a.hpp", "caf/all.hpp"));
  EXPECT_FALSE(allowed("scheduler/a.hpp", "google/protobuf/message.h"));
  EXPECT_TRUE(violations("graph/a.cpp", "#include \"messages/proto/graph.pb.h\"").empty());
  EXPECT_FALSE(violations("kernels/a.cpp", "#include \"messages/proto/graph.pb.h\"").empty());
  EXPECT_TRUE(allowed("kernels/cpu/a.cpp", "Eigen/Core"));
  EXPECT_FALSE(allowed("devices/a.cpp", "Eigen/Core"));
  EXPECT_FALSE(allowed("actors/a.cpp", "dnnl.hpp"));
  EXPECT_TRUE(allowed("kernels/readers/a.cpp", "zlib.h"));
  EXPECT_FALSE(allowed("kernels/cpu/a.cpp", "zlib.h"));
  EXPECT_FALSE(allowed("devices/cpu/a.cpp", "omp.h"));
  EXPECT_TRUE(violations("kernels/cpu/a.cpp", "#include <troupe/devices/cpu/openmp.hpp>").empty());
  EXPECT_FALSE(violations("actors/a.cpp", "#include <troupe/devices/cpu/openmp.hpp>").empty());
  EXPECT_TRUE(allowed("devices/cuda/a.cu", "cuda_runtime.h"));
  EXPECT_FALSE(allowed("devices/cpu/a.cpp", "cuda_runtime.h"));
  EXPECT_FALSE(allowed("kernels/cuda/a.cu", "nccl.h"));
  EXPECT_FALSE(allowed("devices/cuda/a.cu", "cublas_v2.h"));
  EXPECT_FALSE(allowed("apps/a.cpp", "openssl/sha.h"));
  EXPECT_FALSE(allowed("graph/a.cpp", "nlohmann/json.hpp"));
  EXPECT_FALSE(allowed("graph/a.cpp", "boost/asio.hpp"));
  EXPECT_TRUE(allowed("tests/graph/a.cpp", "gtest/gtest.h"));
  EXPECT_FALSE(allowed("graph/a.cpp", "gtest/gtest.h"));
}

TEST(Layering, OnlyAppsAndToolsReadTheEnvironment) {
  EXPECT_THAT(violations("devices/a.cpp", "int x;\nauto v = std::getenv(\"X\");"),
              ElementsAre("devices/a.cpp:2: only apps and tools read the environment"));
  EXPECT_EQ(violations("actors/a.cpp", "secure_getenv(\"X\")").size(), 1u);
  EXPECT_THAT(violations("tools/a.cpp", "getenv(\"X\")"), IsEmpty());
  EXPECT_THAT(violations("actors/a.cpp", "forgetenvelope();"), IsEmpty());
}

}  // namespace
}  // namespace troupe::repository
