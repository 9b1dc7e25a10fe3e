# The one place that sets compiler flags which could touch a rounding.
# -ffp-contract=off: a*b+c is two roundings unless the source says fma.
function(isobit_strict_fp target)
  target_compile_options(${target} PRIVATE
    -ffp-contract=off -fno-fast-math -fno-math-errno -fno-trapping-math -Wall -Wextra)
  if(ISOBIT_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
endfunction()
