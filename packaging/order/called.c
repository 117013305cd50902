/* Prints the functions that a program calls, in the order of their first calls, one on a line.
 *
 *   readelf -sW PROGRAM | awk '$4 == "FUNC" && $3 > 0 { print $2, $8 }' | called PROGRAM ARGUMENTS...
 *
 * Each function begins with a breakpoint until its first call. The program must be a static one that is loaded at any address. Its
 * own output goes to standard error. It ends with the signals that this one gets.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FUNCTIONS_MAX = 200000, NAME_MAX_BYTES = 8191 };
static const unsigned char BREAKPOINT = 0xcc;

struct function {
    unsigned long address;
    char *name;
    unsigned char first; /* The byte that the breakpoint replaces. */
    int called;
};

static struct function functions[FUNCTIONS_MAX];
static size_t count;
static pid_t child;

static int by_address(const void *a, const void *b) {
    unsigned long x = ((const struct function *)a)->address, y = ((const struct function *)b)->address;
    return (x > y) - (x < y);
}

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void read_functions(void) {
    char name[NAME_MAX_BYTES + 1];
    unsigned long address;
    size_t all = 0;
    while (all < FUNCTIONS_MAX && scanf("%lx %8191s", &address, name) == 2) {
        functions[all++] = (struct function){.address = address, .name = strdup(name)};
    }
    qsort(functions, all, sizeof *functions, by_address);
    /* Of several names of a function, one is enough. */
    for (size_t i = 0; i < all; i++) {
        if (count == 0 || functions[count - 1].address != functions[i].address) functions[count++] = functions[i];
    }
}

static void pass_on(int signal) { kill(child, signal); }

int main(int argc, char **argv) {
    char path[64];
    unsigned long base;
    int status;
    if (argc < 2) return 2;
    read_functions();
    child = fork();
    if (child < 0) fail("fork");
    if (child == 0) {
        dup2(STDERR_FILENO, STDOUT_FILENO);
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        execv(argv[1], argv + 1);
        _exit(127);
    }
    if (waitpid(child, &status, 0) < 0 || !WIFSTOPPED(status)) fail(argv[1]);
    signal(SIGTERM, pass_on);
    signal(SIGINT, pass_on);
    ptrace(PTRACE_SETOPTIONS, child, 0, PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL);

    snprintf(path, sizeof path, "/proc/%d/maps", child);
    FILE *maps = fopen(path, "r");
    if (!maps || fscanf(maps, "%lx", &base) != 1) fail(path);
    fclose(maps);
    snprintf(path, sizeof path, "/proc/%d/mem", child);
    int memory = open(path, O_RDWR);
    for (size_t i = 0; i < count; i++) {
        off_t at = (off_t)(base + functions[i].address);
        if (pread(memory, &functions[i].first, 1, at) != 1 || pwrite(memory, &BREAKPOINT, 1, at) != 1) fail(path);
    }
    ptrace(PTRACE_CONT, child, 0, 0);

    for (;;) {
        pid_t thread = waitpid(-1, &status, __WALL);
        if (thread < 0) continue; /* A signal was passed on. */
        if (!WIFSTOPPED(status)) {
            if (thread == child) break;
            continue;
        }
        int signal = WSTOPSIG(status);
        if (signal == SIGTRAP && status >> 16 == 0) {
            struct user_regs_struct registers;
            ptrace(PTRACE_GETREGS, thread, 0, &registers);
            struct function key = {.address = registers.rip - 1 - base};
            struct function *f = bsearch(&key, functions, count, sizeof *functions, by_address);
            if (f) {
                if (!f->called) {
                    f->called = 1;
                    puts(f->name);
                    if (pwrite(memory, &f->first, 1, (off_t)(base + f->address)) != 1) fail(path);
                }
                /* Another thread may have been here at the same time. */
                registers.rip--;
                ptrace(PTRACE_SETREGS, thread, 0, &registers);
                signal = 0;
            }
        } else if (signal == SIGSTOP || signal == SIGTRAP) {
            signal = 0; /* A new thread. */
        }
        ptrace(PTRACE_CONT, thread, 0, signal);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
