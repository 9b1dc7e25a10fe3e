# Compiles sources once per instruction set, each time into a namespace of its own (ISOBIT_ISA_NAMESPACE) over its own
# 16-lane type (ISOBIT_SIMD_HEADER). To add an ISA: add a line here, a header src/kernels/isa/simd_<name>.h, and an entry
# in src/kernels/dispatch.cc.
function(isobit_compile_for target sources name simd)
  set(object ${target}_kernels_${name})
  add_library(${object} OBJECT ${sources})
  isobit_strict_fp(${object})
  # g++ 12 warns inside its own intrinsics and about tiles that the first block of a sum fills; clang watches instead.
  target_compile_options(${object} PRIVATE ${ARGN}
    $<$<CXX_COMPILER_ID:GNU>:-Wno-uninitialized> $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  target_compile_definitions(${object} PRIVATE ISOBIT_ISA_NAMESPACE=${name} ISOBIT_SIMD_HEADER="kernels/isa/simd_${simd}.h")
  target_include_directories(${object} PRIVATE
    ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
  target_sources(${target} PRIVATE $<TARGET_OBJECTS:${object}>)
  target_compile_definitions(${target} PRIVATE ISOBIT_HAVE_${name}=1)
endfunction()

function(isobit_add_isa target sources name)
  isobit_compile_for(${target} "${sources}" ${name} ${name} ${ARGN})
endfunction()

set(ISOBIT_AVX512_FLAGS -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mprefer-vector-width=512)

function(isobit_add_isas target)
  isobit_add_isa(${target} "${ARGN}" scalar)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|amd64")
    isobit_add_isa(${target} "${ARGN}" avx2 -mavx2 -mfma -mno-avx512f)
    isobit_add_isa(${target} "${ARGN}" avx512 ${ISOBIT_AVX512_FLAGS})
  elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
    isobit_add_isa(${target} "${ARGN}" neon)
  endif()
endfunction()

# The integer products once more for CPUs with integer dot instructions: all that such a set adds to the one below it.
function(isobit_add_dot_isas target)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|amd64")
    isobit_compile_for(${target} "${ARGN}" avx512vnni avx512 ${ISOBIT_AVX512_FLAGS} -mavx512vnni)
  elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
    isobit_compile_for(${target} "${ARGN}" neondot neon -march=armv8.2-a+dotprod)
  endif()
endfunction()
