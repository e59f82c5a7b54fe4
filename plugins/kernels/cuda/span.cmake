# Attention over the paged cache: what paged (and cascade) are made of, and the oracle of their tests.
# Kernels that run on every GPU that the device takes.
add_library(mortise_kernels_cuda_span_all STATIC span_append.cu span_layout.cpp span_merge.cu span_tiles.cu)
# Kernels that need wgmma and TMA.
add_library(mortise_kernels_cuda_span STATIC span_decode.cu span_kernels.cpp span_prefill.cu)
add_library(mortise_kernels_cuda_span_reference STATIC EXCLUDE_FROM_ALL reference/span.cu)
foreach(library mortise_kernels_cuda_span_all mortise_kernels_cuda_span mortise_kernels_cuda_span_reference)
  target_include_directories(${library} PUBLIC ${PROJECT_SOURCE_DIR}/plugins)
  target_link_libraries(${library} PUBLIC mortise_cuda_flags CUDA::cudart_static)
endforeach()
set_target_properties(mortise_kernels_cuda_span_all mortise_kernels_cuda_span_reference PROPERTIES
  CUDA_ARCHITECTURES "${MORTISE_CUDA_ALL_ARCHITECTURES}")
target_link_libraries(mortise_kernels_cuda_span PUBLIC mortise_kernels_cuda_span_all)
