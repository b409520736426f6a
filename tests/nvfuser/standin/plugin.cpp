// A plugin for tests: each matmul takes what the environment says. WSCHED_STANDIN_PLUGIN names
// another plugin to ask; WSCHED_STANDIN_FIELDS holds "field=value" words that are set after it.
#include <dlfcn.h>
#include <cstdlib>
#include <sstream>
#include <stdexcept>
#include <string>

#include "scheduler/matmul_heuristic_plugin_api.h"

using nvfuser::matmul_heuristic_plugin::KernelConfig;

namespace {

struct Config : KernelConfig {
  void configure() override {
    if (const char* other = getenv("WSCHED_STANDIN_PLUGIN")) {
      using Make = std::unique_ptr<KernelConfig> (*)();
      void* library = dlopen(other, RTLD_NOW);
      auto config = reinterpret_cast<Make>(dlsym(library, "makeConfig"))();
      KernelConfig& to = *config;
      to.problem = problem;
      to.instruction_tile = instruction_tile;
      to.configure();
      cta_tile = to.cta_tile;
      warp_tile = to.warp_tile;
      instruction_tile = to.instruction_tile;
      cluster_dims = to.cluster_dims;
      splitk_factor = to.splitk_factor;
      load_stages = to.load_stages;
      prefetch_gap = to.prefetch_gap;
      grid_swizzle_factor = to.grid_swizzle_factor;
      cta_order = to.cta_order;
      circular_buffer_smem_read = to.circular_buffer_smem_read;
      async_gmem_load_operands = to.async_gmem_load_operands;
    }
    std::istringstream words(getenv("WSCHED_STANDIN_FIELDS") ? getenv("WSCHED_STANDIN_FIELDS") : "");
    for (std::string word; words >> word;) {
      const auto at = word.find('=');
      set(word.substr(0, at), std::stoi(word.substr(at + 1)));
    }
  }

  void set(const std::string& name, int value) {
    if (name == "cluster_m") cluster_dims[0] = value;
    else if (name == "cluster_n") cluster_dims[1] = value;
    else if (name == "splitk_factor") splitk_factor = value;
    else if (name == "load_stages") load_stages = value;
    else if (name == "prefetch_gap") prefetch_gap = value;
    else if (name == "grid_swizzle_factor") grid_swizzle_factor = value;
    else if (name == "cta_order") cta_order = value;
    else if (name == "circular_buffer_smem_read") circular_buffer_smem_read = value;
    else if (name == "tile") {  // 128 x value x 64 on two warpgroups
      cta_tile = {128, uint16_t(value), 64};
      warp_tile = {64, uint16_t(value), 64};
      instruction_tile = {64, uint16_t(value), 16};
    } else {
      throw std::invalid_argument(name);
    }
  }
};

} // namespace

extern "C" std::unique_ptr<KernelConfig> makeConfig() {
  return std::unique_ptr<KernelConfig>(new Config);
}
