#!/usr/bin/env bash
# Builds what a release consists of: deploy/release.sh v1.2.3 [DIRECTORY]
#
# Static binaries for each system, Debian packages, a bill of materials
# (CycloneDX) and SHA256SUMS. The same commit and the same Go give the same bytes.
# TARGETS="linux/amd64 …" builds some of them only.
set -euo pipefail
cd "$(dirname "$0")/.."

version=${1:?usage: deploy/release.sh v1.2.3 [DIRECTORY]}
[[ $version =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$ ]] || { echo "release: $version is not a version such as v1.2.3" >&2; exit 2; }
out=${2:-dist}
targets=${TARGETS:-linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64}
most=$((35 << 20)) # bytes of a binary

# Tools are built where the tests look for them, and are no part of the module.
cache="${XDG_CACHE_HOME:-$HOME/.cache}/holdfast-tests"
tool() { # name, package, version
	local dir="$cache/$1-$3"
	[[ -x "$dir/$1" ]] || GOFLAGS='' GOBIN="$dir" CGO_ENABLED=0 go install "$2@$3" >&2
	echo "$dir/$1"
}
nfpm=$(tool nfpm github.com/goreleaser/nfpm/v2/cmd/nfpm v2.45.2)
cyclonedx=$(tool cyclonedx-gomod github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod v1.9.0)

# The time of the commit is that of every file in a package.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
if [[ -n $(git status --porcelain) ]]; then
	echo "release: the work tree has changes that are not committed; the binaries say so" >&2
fi
mkdir -p "$out"
out=$(cd "$out" && pwd)
if [[ -n $(ls -A "$out") ]]; then
	echo "release: $out is not empty" >&2
	exit 2
fi

# package makes a Debian package of a binary. Its files get the time of the commit.
package() { # architecture, binary
	local stage
	stage=$(mktemp -d)
	cp -r deploy LICENSE "$stage"
	cp "$2" "$stage/holdfast"
	find "$stage" -exec touch -d "@$SOURCE_DATE_EPOCH" {} +
	(cd "$stage" && VERSION=${version#v} ARCH=$1 BINARY=holdfast "$nfpm" package --config deploy/deb/nfpm.yaml --packager deb \
		--target "$out/holdfast_${version#v}_$1.deb" >&2)
	rm -r "$stage"
}

for target in $targets; do
	os=${target%/*} arch=${target#*/}
	file="$out/holdfast_${version}_${os}_$arch"
	[[ $os != windows ]] || file+=.exe
	CGO_ENABLED=0 GOOS=$os GOARCH=$arch go build -buildvcs=true -trimpath -ldflags "-s -w -buildid= -X main.version=$version" -o "$file" ./cmd/holdfast
	size=$(wc -c <"$file")
	printf '%s: %d MB\n' "$(basename "$file")" $((size >> 20))
	if ((size > most)); then
		echo "release: $(basename "$file") has $size bytes; at most $most are allowed" >&2
		exit 1
	fi
	# The time of its making would be the only thing that differs the next time.
	"$cyclonedx" bin -json -noserial -std -version "$version" -output - "$file" | sed '/^    "timestamp": /d' >"$file.cdx.json"
	if [[ $os == linux ]]; then
		package "$arch" "$file"
	fi
done
cd "$out"
sha256sum holdfast_* >SHA256SUMS
echo "release: $(wc -l <SHA256SUMS) files in $out"
