// SPDX-License-Identifier: Apache-2.0
/*
 * What is written in assembly for imprints (src/driver/imprint_place.c): a place that is noted and
 * gone back to, a stack of one's own, and a thread without libc. It stands on libc alone, so that
 * it can be built for the other architecture, too, and be run by an emulator (meson.build).
 *
 * Says what went wrong, and ends with 1.
 */
#include "driver/imprint.h"

#include <fenv.h>
#include <linux/futex.h>
#include <linux/sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STACK (64UL << 10)

static int failures;

static void check(int ok, const char *what)
{
	if (ok)
		return;
	(void)fprintf(stderr, "imprint-place: not so: %s\n", what);
	failures++;
}

/* The registers that a call keeps are filled, the place is noted, they are filled anew, and it is
 * gone back to. Each must have its first value again. */
#if defined(__x86_64__)
#define KEPT  5
#define MODES 2
#define FILL(with)                                                                                 \
	"	mov " with "(%%rip), %%rbx\n"                                                      \
	"	mov 8+" with "(%%rip), %%r12\n"                                                    \
	"	mov 16+" with "(%%rip), %%r13\n"                                                   \
	"	mov 24+" with "(%%rip), %%r14\n"                                                   \
	"	mov 32+" with "(%%rip), %%r15\n"
uint64_t first[KEPT] = {11, 12, 13, 14, 15}, second[KEPT] = {91, 92, 93, 94, 95}, seen[KEPT];
struct place spot;
long times;

static void go_round(void)
{
	__asm__ volatile(
		"	sub $256, %%rsp\n" /* the red zone */
		FILL("first") "	lea spot(%%rip), %%rdi\n"
			      "	call imprint_mark\n"
			      "	test %%rax, %%rax\n"
			      "	jne 1f\n"
			      "	incq times(%%rip)\n" FILL("second") "	lea spot(%%rip), %%rdi\n"
								    "	call imprint_go\n"
								    "1:	add %%rax, times(%%rip)\n"
								    "	mov %%rbx, seen(%%rip)\n"
								    "	mov %%r12, 8+seen(%%rip)\n"
								    "	mov %%r13, 16+seen(%%rip)\n"
								    "	mov %%r14, 24+seen(%%rip)\n"
								    "	mov %%r15, 32+seen(%%rip)\n"
								    "	add $256, %%rsp\n"
		:
		:
		: "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13",
		  "r14", "r15", "memory", "cc");
}
#elif defined(__aarch64__)
#define KEPT 18 /* x19 to x28, d8 to d15 */
#define ADDRESS(of, in)                                                                            \
	"	adrp " in ", " of "\n"                                                             \
	"	add " in ", " in ", :lo12:" of "\n"
#define EACH(word, at)                                                                             \
	word " x19, x20, [" at "]\n" word " x21, x22, [" at ", #16]\n" word " x23, x24, [" at      \
	     ", #32]\n" word " x25, x26, [" at ", #48]\n" word " x27, x28, [" at ", #64]\n" word   \
	     " d8, d9, [" at ", #80]\n" word " d10, d11, [" at ", #96]\n" word " d12, d13, [" at   \
	     ", #112]\n" word " d14, d15, [" at ", #128]\n"
uint64_t first[KEPT] = {11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28};
uint64_t second[KEPT] = {91, 92, 93, 94, 95, 96, 97, 98, 99, 90, 81, 82, 83, 84, 85, 86, 87, 88};
uint64_t seen[KEPT];
struct place spot;
long times;

static void go_round(void)
{
	__asm__ volatile(
		ADDRESS("first", "x9") EACH("	ldp", "x9") ADDRESS(
			"spot",
			"x0") "	bl imprint_mark\n"
			      "	cbnz x0, 1f\n" ADDRESS(
				      "times",
				      "x9") "	ldr x10, [x9]\n"
					    "	add x10, x10, #1\n"
					    "	str x10, [x9]\n" ADDRESS("second",
	                                                                 "x9") EACH("	ldp", "x9")
						    ADDRESS("spot",
	                                                    "x0") "	bl imprint_go\n"
								  "1:\n" ADDRESS(
									  "times",
									  "x9") "	ldr x10, "
										"[x9]\n"
										"	add x10, "
										"x10, x0\n"
										"	str x10, "
										"[x9]\n" ADDRESS(
											"seen",
											"x9")
											EACH("	st"
	                                                                                     "p",
	                                                                                     "x9")
		:
		:
		: "x0", "x1", "x2", "x9", "x10", "x19", "x20", "x21", "x22", "x23", "x24", "x25",
		  "x26", "x27", "x28", "x30", "d8", "d9", "d10", "d11", "d12", "d13", "d14", "d15",
		  "memory", "cc");
}
#endif

static void check_registers(void)
{
	go_round();
	check(times == 2, "the place is left once, and come back to once, with 1");
	check(memcmp(seen, first, sizeof(seen)) == 0, "registers have what they had at the place");
}

static struct place modes_spot;

static void check_modes(void)
{
	static volatile int was_back;

	(void)fesetround(FE_TOWARDZERO);
	if (imprint_mark(&modes_spot) == 0) {
		(void)fesetround(FE_UPWARD);
		was_back = 1;
		imprint_go(&modes_spot);
	}
	check(was_back, "it is come back to");
	check(fegetround() == FE_TOWARDZERO, "numbers are rounded as at the place");
	(void)fesetround(FE_TONEAREST);
}

static struct place stack_spot;
static char own_stack[STACK] __attribute__((aligned(16)));
static volatile long got;
static volatile int is_within, is_aligned;

static void on_own_stack(long arg)
{
	char here __attribute__((aligned(16)));

	got = arg;
	is_within = &here >= own_stack && &here < own_stack + STACK;
	is_aligned =
		((uintptr_t)&here & 15) == 0 && ((uintptr_t)__builtin_frame_address(0) & 15) == 0;
	imprint_go(&stack_spot);
}

static void check_stack(void)
{
	if (imprint_mark(&stack_spot) == 0)
		imprint_call_on(own_stack + STACK, on_own_stack, 4711);
	check(got == 4711, "what is called on a stack gets its argument");
	check(is_within && is_aligned, "it stands on that stack, aligned");
}

static char thread_stack[STACK] __attribute__((aligned(16)));
static int tid = 1;
static volatile int has_run;

static void run(void)
{
	char here __attribute__((aligned(16)));

	has_run = &here >= thread_stack && &here < thread_stack + STACK &&
	          ((uintptr_t)&here & 15) == 0;
	for (;;)
		(void)call(__NR_exit, 0, 0, 0);
}

static void check_thread(void)
{
	const long flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
	                   CLONE_SYSVSEM | CLONE_CHILD_CLEARTID;

	check(imprint_thread(flags, thread_stack + STACK, run, &tid) > 0, "a thread is made");
	while (__atomic_load_n(&tid, __ATOMIC_ACQUIRE) != 0)
		(void)call5(__NR_futex, (long)&tid, FUTEX_WAIT, 1, 0, 0);
	check(has_run, "it has run on its stack");
}

static void check_calls(void)
{
	static char text[] = "six words";
	char back[sizeof(text)] = "";
	int fds[2];

	check(call5(__NR_pipe2, (long)fds, 0, 0, 0, 0) == 0, "pipe2");
	check(call(__NR_write, fds[1], (long)text, sizeof(text)) == (long)sizeof(text), "write");
	check(call(__NR_read, fds[0], (long)back, sizeof(back)) == (long)sizeof(back) &&
	              strcmp(back, text) == 0,
	      "read");
	check(call(__NR_close, 4711, 0, 0) < 0, "an error is negative");
}

int main(void)
{
	check_calls();
	check_registers();
	check_modes();
	check_stack();
	check_thread();
	return failures != 0;
}
