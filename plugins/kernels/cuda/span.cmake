# Attention over the paged cache: what paged (and cascade) are made of, and the oracle of their tests.
add_library(mortise_kernels_cuda_span STATIC
  span_append.cu span_decode.cu span_layout.cpp span_merge.cu span_prefill.cu)
add_library(mortise_kernels_cuda_span_reference STATIC EXCLUDE_FROM_ALL reference/span.cu)
foreach(library mortise_kernels_cuda_span mortise_kernels_cuda_span_reference)
  target_include_directories(${library} PUBLIC ${PROJECT_SOURCE_DIR}/plugins)
  target_link_libraries(${library} PUBLIC mortise_cuda_flags CUDA::cudart_static)
endforeach()
