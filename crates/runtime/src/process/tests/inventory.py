# What there is inside, and what can be reached from there; one thing a line. Not into /usr, /proc, the home and what
# is shown of /etc: those are shown whole.
import ctypes, errno, os, socket, stat, subprocess, sys, time

data, codehub, other, abstract, machine, _ = sys.argv[1:]
whole = {"/usr", "/opt", "/proc", os.environ["HOME"], data}
lines = set()


def look(directory):
    for name in os.listdir(directory):
        path = os.path.join(directory, name)
        mode = os.lstat(path).st_mode
        if data.startswith(path + "/") and path != "/tmp":
            look(path)
            continue
        if path.startswith(os.path.dirname(data) + "/") and not data.startswith(path):
            lines.add("unexpected " + path)
        shown = "there " + path.replace(data, "{data}")
        if stat.S_ISLNK(mode):
            lines.add(shown + " ->")
            continue
        lines.add(shown + ("/" if stat.S_ISDIR(mode) else " socket" if stat.S_ISSOCK(mode) else ""))
        if os.access(path, os.W_OK) and not stat.S_ISCHR(mode):
            lines.add("writable " + path.replace(data, "{data}"))
        in_etc = path.startswith("/etc/") and path not in ("/etc/ssl", "/etc/pki", "/etc/pki/tls", "/etc/pki/ca-trust")
        if stat.S_ISDIR(mode) and path not in whole and not in_etc:
            look(path)


def connect(address, kind=socket.SOCK_STREAM, family=socket.AF_INET):
    with socket.socket(family, kind) as sock:
        sock.settimeout(3)
        try:
            sock.connect(address)
            return "yes"
        except OSError as error:
            return "no route" if error.errno in (errno.EHOSTUNREACH, errno.ENETUNREACH) else "no"


look("/")
for path in ("/etc/shadow", "/root", "/sys", "/run/docker.sock", "/var/run", "/var/lib", data + "/codehub.db"):
    if os.path.lexists(path):
        lines.add("unexpected " + path)
for line in open("/proc/self/mounts"):
    _, where, kind, options, *_ = line.split()
    options = options.split(",")
    if "nosuid" not in options:
        lines.add("suid " + where)
status = dict(line.rstrip("\n").split(":\t", 1) for line in open("/proc/self/status") if ":\t" in line)
for name in ("CapInh", "CapPrm", "CapEff", "CapAmb", "NoNewPrivs", "Uid", "Gid"):
    lines.add(f"status {name} {' '.join(status[name].split())}")
lines.add("status host name " + socket.gethostname())
lines.add("status user namespaces " + ("yes" if ctypes.CDLL(None).unshare(0x10000000) == 0 else "no"))
known = {"bwrap", "codehub", "python3", "sh"}
for pid in filter(str.isdigit, os.listdir("/proc")):
    name = os.readlink(f"/proc/{pid}/exe") if os.access(f"/proc/{pid}/exe", os.R_OK) else open(f"/proc/{pid}/comm").read().strip()
    lines.add("process " + ("ours" if any(it in name for it in known) else name))
for fd in os.listdir("/proc/self/fd"):
    # Whoever runs the tests may leave some of its own open.
    leads_to = os.readlink(f"/proc/self/fd/{fd}") if os.path.lexists(f"/proc/self/fd/{fd}") else "/dev/null"
    if int(fd) > 2 and not leads_to.startswith(("/proc/", "pipe:", "/dev/null")):
        lines.add("descriptor " + leads_to)
for name in os.environ:
    if name not in ("TZ", "PWD", "OLDPWD", "SHLVL", "_", "LC_CTYPE"):
        lines.add("variable " + name)
lines.add("value HOME=" + os.environ["HOME"])
lines.add("value USER=" + os.environ["USER"])
lines.add("value PATH=" + ":".join(os.environ["PATH"].split(":")[:3]) + ":…")
for program in ("codehub", "git", "python3", "vim"):
    found = subprocess.run(["sh", "-c", "command -v " + program], capture_output=True, text=True).stdout.strip()
    lines.add(f"program {program} in /{found.split('/')[1] if found else '?'}")

lines.add("reached 127.0.0.1, CodeHub: " + connect(("127.0.0.1", int(codehub))))
lines.add("reached 127.0.0.1, another port: " + connect(("127.0.0.1", int(other))))
lines.add("reached abstract socket: " + connect("\0" + abstract, family=socket.AF_UNIX))
if machine:
    lines.add("reached this machine's address: " + connect((machine, int(other))))
for address in ("10.1.2.3", "100.64.0.1", "168.63.129.16", "169.254.169.254", "172.16.0.1", "192.168.0.1", "224.0.0.1"):
    lines.add(f"reached {address}: " + connect((address, 53), socket.SOCK_DGRAM))
lines.add("reached 1.1.1.1: " + connect(("1.1.1.1", 53), socket.SOCK_DGRAM))
lines.add("reached 2001:4860::1: " + connect(("2001:4860::1", 53), socket.SOCK_DGRAM, socket.AF_INET6))

with open(os.path.join(os.environ["HOME"], ".inventory"), "w") as file:
    file.write("\n".join(sorted(lines)) + "\n")
os.rename(os.path.join(os.environ["HOME"], ".inventory"), os.path.join(os.environ["HOME"], "inventory"))
time.sleep(600)
