/* Preloaded into a broker, makes each sync take SLOW_SYNC_MS milliseconds longer (5 if unset; 5.9 is possible), as on a consumer-grade disk.
 *
 *   cc -O2 -shared -fPIC -o slow_sync.so bench/slow_sync.c -ldl
 *   LD_PRELOAD=./slow_sync.so sluice serve ...
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

static void wait_for_the_disk(void) {
    const char *ms = getenv("SLOW_SYNC_MS");
    usleep((useconds_t)((ms ? atof(ms) : 5) * 1000));
}

int fdatasync(int fd) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    wait_for_the_disk();
    return real(fd);
}

int fsync(int fd) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    wait_for_the_disk();
    return real(fd);
}
