#!/bin/sh
# Downloads the distribution's package of Redis (or Valkey) with the libraries it misses here, and unpacks it. Nothing
# is installed, and root is not needed. Debian, Ubuntu and what is made from them.
#
#   unpack-redis.sh WORK TARGET
#
# WORK is an empty folder beside TARGET, for the caller to remove. TARGET/redis-server runs, or TARGET is not there.
set -eu
work=$1 target=$2
mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/packages" "$work/files"

# Package lists and downloads have folders of their own. apt verifies them by the distribution's keys, whatever this
# machine's configuration permits. Hooks of the machine would work on its own lists, and other indexes are not read.
# As root, apt would download as a user who has no access to this folder.
cat >"$work/apt.conf" <<END
Dir::State::lists "$work/lists";
Dir::Cache "$work/cache";
Debug::NoLocking "true";
APT::Sandbox::User "root";
APT::Get::AllowUnauthenticated "false";
Acquire::AllowInsecureRepositories "false";
Acquire::AllowWeakRepositories "false";
Acquire::AllowDowngradeToInsecureRepositories "false";
Acquire::Languages "none";
Acquire::Retries "1";
Acquire::http::Timeout "10";
Acquire::https::Timeout "10";
#clear APT::Update;
#clear Acquire::IndexTargets;
Acquire::IndexTargets::deb::Packages {
  MetaKey "\$(COMPONENT)/binary-\$(ARCHITECTURE)/Packages"; flatMetaKey "Packages";
  ShortDescription "Packages"; Description "\$(RELEASE)/\$(COMPONENT) \$(ARCHITECTURE) Packages"; Optional "false";
};
END
apt() { apt-get -qq -c "$work/apt.conf" "$@"; }
runs() { "$1/redis-server" --version >/dev/null; }

# one source of several may be out of reach: the package is asked for all the same
apt update || true
for name in redis valkey; do
  # the tools hold the program: they are wanted even where they are installed
  packages=$(apt --simulate --reinstall --no-install-recommends install $name-server $name-tools |
    sed -n 's/^Inst \([^ ]*\) .*/\1/p')
  [ -z "$packages" ] || break
done
[ -n "$packages" ] || { echo "neither redis-server nor valkey-server is among the packages" >&2; exit 1; }
(cd "$work/packages" && apt download $packages)
for package in "$work"/packages/*.deb; do dpkg-deb -x "$package" "$work/files"; done

libraries=$(cd "$work/files" && find . -name '*.so*' -exec dirname {} + | sort -u | sed 's|^\.|$here|' | paste -sd: -)
cat >"$work/files/redis-server" <<END
#!/bin/sh
here=\$(dirname "\$(readlink -f "\$0")")
LD_LIBRARY_PATH="$libraries" exec "\$here/usr/bin/$name-server" "\$@"
END
chmod 755 "$work/files" "$work/files/redis-server"
runs "$work/files"
# The rename is all or nothing. Where another process was quicker, its files are as good.
mv -T "$work/files" "$target" 2>/dev/null || runs "$target" || { rm -rf "$target"; mv -T "$work/files" "$target"; }
