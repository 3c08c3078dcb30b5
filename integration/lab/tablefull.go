package lab

import (
	"bufio"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
)

// neighbourStats has a line of names, then a line of hexadecimal counts for each processor.
const neighbourStats = "/proc/net/stat/arp_cache"

// NeighboursRefused returns how often the kernel has had no room for another hardware address since it started, in all
// namespaces together (net.ipv4.neigh.default.gc_thresh3). While the number grows, nodes that do not know each other
// yet are cut off. Other programs on the machine may have filled the table. The result is 0 if the kernel does not show
// the number.
func NeighboursRefused() uint64 {
	f, err := os.Open(neighbourStats)
	if err != nil {
		return 0
	}
	defer f.Close()
	return sumOf(f, "table_fulls")
}

func sumOf(r io.Reader, name string) (sum uint64) {
	lines := bufio.NewScanner(r)
	lines.Scan()
	column := slices.Index(strings.Fields(lines.Text()), name)
	for lines.Scan() {
		if fields := strings.Fields(lines.Text()); column >= 0 && column < len(fields) {
			n, _ := strconv.ParseUint(fields[column], 16, 64) // 0 if it is not a number
			sum += n
		}
	}
	return sum
}
