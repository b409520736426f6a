// Loads a plugin (argument 1) and asks it for each line of standard input:
// m n k batch precision, and the instruction that nvFuser chose. Prints what it answers.
#include <dlfcn.h>
#include <iostream>
#include <string>

#include "scheduler/matmul_heuristic_plugin_api.h"

using nvfuser::matmul_heuristic_plugin::KernelConfig;

int main(int, char** arguments) {
  void* library = dlopen(arguments[1], RTLD_NOW);
  using Make = std::unique_ptr<KernelConfig> (*)();
  auto make = library ? reinterpret_cast<Make>(dlsym(library, "makeConfig")) : nullptr;
  if (!make) {
    std::cerr << dlerror() << "\n";
    return 1;
  }
  unsigned m, n, k, batch;
  std::string precision;
  KernelConfig::Tile instruction;
  while (std::cin >> m >> n >> k >> batch >> precision >> instruction[0] >> instruction[1] >>
         instruction[2]) {
    auto c = make();
    c->problem.m = m;
    c->problem.n = n;
    c->problem.k = k;
    c->problem.batch_size = batch;
    c->problem.precision = precision.c_str();
    c->instruction_tile = instruction;
    c->configure();
    for (const auto& tile : {c->cta_tile, c->warp_tile, c->instruction_tile, c->cluster_dims}) {
      std::cout << tile[0] << " " << tile[1] << " " << tile[2] << " ";
    }
    std::cout << c->splitk_factor << " " << int(c->load_stages) << " " << int(c->prefetch_gap) << " "
              << int(c->grid_swizzle_factor) << " " << int(c->cta_order) << " "
              << c->circular_buffer_smem_read << " " << c->async_gmem_load_operands << "\n";
  }
}
