/*
 * both.h - SN_BOTH: a function that CPU and CUDA code share.
 */
#ifndef SN_BOTH_H
#define SN_BOTH_H

#ifdef __CUDACC__
#define SN_BOTH static inline __host__ __device__
#else
#define SN_BOTH static inline
#endif

#endif
