package operator

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/fencing-agent/fencing-agent/k8s/distributedapp"
)

// ConfigMap is the name of the one with the operator's configuration, in its namespace.
const ConfigMap = Name

// The keys that it may have. All may be missing.
const (
	keyPullPolicy = "imagePullPolicy"
	keyPriority   = "priorityClassName"
	keyGrace      = "terminationGracePeriodSeconds"
)

const mostConfig = 64 << 10

// settings is how pods are made.
type settings struct {
	pull     corev1.PullPolicy
	priority string
	grace    *int64
}

// readConfig takes a ConfigMap apart. All problems are reported at once, and nothing is taken up then (O4).
func readConfig(m *corev1.ConfigMap) (distributedapp.Config, settings, error) {
	var s settings
	var errs []error
	if n := size(m.Data); n > mostConfig {
		errs = append(errs, fmt.Errorf("%d bytes of data: at most %d are allowed", n, mostConfig))
	}
	for _, k := range slices.Sorted(maps.Keys(m.Data)) {
		v := m.Data[k]
		switch k {
		case keyPullPolicy:
			s.pull = corev1.PullPolicy(v)
			if !slices.Contains([]corev1.PullPolicy{corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever}, s.pull) {
				errs = append(errs, fmt.Errorf("%s is %q: Always, IfNotPresent or Never is allowed", k, v))
			}
		case keyPriority:
			s.priority = v
		case keyGrace:
			n, err := strconv.ParseInt(v, 10, 64)
			if err != nil || n < 0 || n > 3600 {
				errs = append(errs, fmt.Errorf("%s is %q: 0 to 3600 is allowed", k, v))
			}
			s.grace = &n
		default:
			errs = append(errs, fmt.Errorf("%s is no key: %s, %s and %s are", k, keyPullPolicy, keyPriority, keyGrace))
		}
	}
	version, err := strconv.ParseUint(m.ResourceVersion, 10, 64)
	if err != nil || version == 0 {
		errs = append(errs, fmt.Errorf("its resourceVersion %q is no number", m.ResourceVersion))
	}
	return distributedapp.Config{Version: version, Digest: digest(m.Data)}, s, errors.Join(errs...)
}

// digest names a content. JSON sorts the keys.
func digest(data map[string]string) string {
	text, _ := json.Marshal(data) // strings: cannot fail
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

func size(data map[string]string) (n int) {
	for k, v := range data {
		n += len(k) + len(v)
	}
	return n
}
