package boottime

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if Wait(t.Context(), time.Minute); time.Since(began) != time.Minute {
			t.Errorf("waited %v", time.Since(began))
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		began = time.Now()
		if Wait(ctx, time.Hour); time.Since(began) != time.Second {
			t.Errorf("waited %v although the context had ended", time.Since(began))
		}
	})
}
