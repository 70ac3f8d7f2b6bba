// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * System calls of what drivers load. Those libraries go into every template, whatever libc that
 * has, so they call no function of any libc. What a call returns is the kernel's answer: 0 or more,
 * or a negative errno.
 */
#include <asm/unistd.h>

#define EXPORT __attribute__((visibility("default")))

#if defined(__x86_64__)
#define CALL "syscall"
static inline long call6(long number, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long result;

	__asm__ volatile(CALL
	                 : "=a"(result)
	                 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
	                 : "rcx", "r11", "memory");
	return result;
}
#elif defined(__aarch64__)
#define CALL "svc #0"
static inline long call6(long number, long a, long b, long c, long d, long e, long f)
{
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;

	__asm__ volatile(CALL
	                 : "+r"(x0)
	                 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
	                 : "memory");
	return x0;
}
#else
#error "say how a system call is made here"
#endif

static inline long call5(long number, long a, long b, long c, long d, long e)
{
	return call6(number, a, b, c, d, e, 0);
}

static inline long call(long number, long a, long b, long c)
{
	return call5(number, a, b, c, 0, 0);
}
