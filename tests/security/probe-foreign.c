// SPDX-License-Identifier: Apache-2.0
/*
 * Calls by the table of another architecture that the same processor and kernel know, where a
 * filter that looks at numbers alone would let other calls through than it means to. E32 of the
 * abuse catalogue.
 *
 *	x86_64		int $0x80 is i386's way in, and a bit in the number means x32
 *	aarch64		64-bit code has no way: a 32-bit program is started
 *
 * ret is the exit status as a shell shows it: 159 = SIGSYS; 10 = the call was made; 11 = it failed.
 */
#include "probe.h"

#include <elf.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)

static void call_i386(const void *arg)
{
	long ret;

	(void)arg;
	__asm__ volatile("int $0x80"
	                 : "=a"(ret)
	                 : "a"(20L /* getpid */)
	                 : "memory", "r8", "r9", "r10", "r11");
	_exit(ret > 0 ? 10 : 11);
}

static void call_x32(const void *arg)
{
	(void)arg;
	_exit(syscall(0x40000000L + 39 /* getpid */) > 0 ? 10 : 11);
}

static int run_foreign(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	tell("foreign:i386", in_child(call_i386, NULL));
	tell("foreign:x32", in_child(call_x32, NULL));
	return 0;
}

#elif defined(__aarch64__)

#define LOAD_AT 0x10000

struct arm_program {
	Elf32_Ehdr head;
	Elf32_Phdr load;
	uint32_t code[7];
};

static const struct arm_program arm_program = {
	.head =
		{
			.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS32, ELFDATA2LSB, EV_CURRENT},
			.e_type = ET_EXEC,
			.e_machine = EM_ARM,
			.e_version = EV_CURRENT,
			.e_entry = LOAD_AT + offsetof(struct arm_program, code),
			.e_phoff = offsetof(struct arm_program, load),
			.e_flags = EF_ARM_EABI_VER5,
			.e_ehsize = sizeof(Elf32_Ehdr),
			.e_phentsize = sizeof(Elf32_Phdr),
			.e_phnum = 1,
		},
	.load =
		{
			.p_type = PT_LOAD,
			.p_vaddr = LOAD_AT,
			.p_filesz = sizeof(struct arm_program),
			.p_memsz = sizeof(struct arm_program),
			.p_flags = PF_R | PF_X,
			.p_align = 0x10000, /* the largest page that a kernel may have */
		},
	.code =
		{
			0xe3a07014, /* mov r7, #20 (getpid) */
			0xef000000, /* svc 0 */
			0xe3500000, /* cmp r0, #0 */
			0xc3a0000a, /* movgt r0, #10 */
			0xd3a0000b, /* movle r0, #11 */
			0xe3a07001, /* mov r7, #1 (exit) */
			0xef000000, /* svc 0 */
		},
};

static void call_arm(const void *arg)
{
	char *const none[] = {NULL};
	int fd = (int)syscall(SYS_memfd_create, "probe", 0U);

	(void)arg;
	if (write(fd, &arm_program, sizeof(arm_program)) == (ssize_t)sizeof(arm_program))
		(void)syscall(SYS_execveat, fd, "", none, none, AT_EMPTY_PATH);
	_exit(11);
}

static int run_foreign(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	tell("foreign:arm", in_child(call_arm, NULL));
	return 0;
}

#endif

const struct probe foreign_probes[] = {
	{"foreign", run_foreign, ""},
	{NULL, NULL, NULL},
};
