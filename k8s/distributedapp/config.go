package distributedapp

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// ConfigMap is the name of the ConfigMap with the operator's configuration, in the operator's namespace.
const ConfigMap = Name

// The keys that the ConfigMap may have. All are optional.
const (
	keyPullPolicy = "imagePullPolicy"
	keyPriority   = "priorityClassName"
	keyGrace      = "terminationGracePeriodSeconds"
)

// config defines how pods are created.
type config struct {
	version  uint64 // of the ConfigMap, which grows with each change; 0: none was read
	pull     corev1.PullPolicy
	priority string
	grace    *int64
}

// readConfig reads a ConfigMap. It reports all problems at once.
func readConfig(m *corev1.ConfigMap) (config, error) {
	c := config{version: versionOf(m.ResourceVersion)}
	var errs []error
	if c.version == 0 {
		errs = append(errs, fmt.Errorf("its resourceVersion %q is not a number", m.ResourceVersion))
	}
	for _, k := range slices.Sorted(maps.Keys(m.Data)) {
		v := m.Data[k]
		switch k {
		case keyPullPolicy:
			c.pull = corev1.PullPolicy(v)
			if !slices.Contains([]corev1.PullPolicy{corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever}, c.pull) {
				errs = append(errs, fmt.Errorf("%s is %q, but must be Always, IfNotPresent or Never", k, v))
			}
		case keyPriority:
			c.priority = v
		case keyGrace:
			n, err := strconv.ParseInt(v, 10, 64)
			if err != nil || n < 0 || n > 3600 {
				errs = append(errs, fmt.Errorf("%s is %q, but must be 0 to 3600", k, v))
			}
			c.grace = &n
		default:
			errs = append(errs, fmt.Errorf("%s is not a known key: the keys are %s, %s and %s", k, keyPullPolicy, keyPriority, keyGrace))
		}
	}
	return c, errors.Join(errs...)
}
