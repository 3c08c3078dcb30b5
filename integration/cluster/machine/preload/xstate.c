/*
 * The kernel of Debian's user-mode-linux has room for 2.7 kB of a thread's vector registers, which was all there was
 * before AMX. On a processor with AMX the host has 11 kB, and refuses to set fewer: each process of a node would end at
 * its first instruction. This takes the call that sets them, and completes what is set by what the host has.
 *
 * Programs in a node cannot use AMX: User-mode Linux has no way to ask the host for it. So the rest is always that of
 * the thread itself.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

/* Not on the stack: that of the kernel has 16 kB. Only one of its threads makes this call. */
static char all[1 << 14] __attribute__((aligned(64)));

static long (*host)(int, int, void *, void *);

__attribute__((constructor)) static void find(void) { host = (long (*)(int, int, void *, void *))dlsym(RTLD_NEXT, "ptrace"); }

long ptrace(enum __ptrace_request request, ...) {
	va_list list;
	va_start(list, request);
	int pid = va_arg(list, int);
	void *kind = va_arg(list, void *), *data = va_arg(list, void *);
	va_end(list);

	if (request == PTRACE_SETREGSET && kind == (void *)NT_X86_XSTATE) {
		struct iovec *some = data, whole = {all, sizeof all};
		if (host(PTRACE_GETREGSET, pid, kind, &whole) == 0 && whole.iov_len > some->iov_len) {
			memcpy(all, some->iov_base, some->iov_len);
			return host(request, pid, kind, &whole);
		}
	}
	return host(request, pid, kind, data);
}
