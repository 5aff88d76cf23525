package main

import (
	"math"
	"testing"
	"time"

	"holdfast/node/client"
	"holdfast/replicate"
)

func TestPrices(t *testing.T) {
	million := replicate.Requests{Put: 1_500_000, Get: 2_000_000, List: 500_000, Delete: 9_000_000}
	want := map[string]float64{
		"AWS S3 Standard (us-east-1)": 1.5*5 + 2*0.4 + 0.5*5,
		"Tigris (Fly.io)":             1.49*5 + 1.9*0.5 + 0.5*5,
		"Cloudflare R2":               0.5*4.5 + 0.5*4.5, // what is free covers the rest
		"Backblaze B2":                1.925*0.4 + 0.425*4,
	}
	for _, p := range providers() {
		if got := p.month(million); math.Abs(got-want[p.provider]) > 0.005 {
			t.Errorf("%s: got %.3f, want %.3f", p.provider, got, want[p.provider])
		}
		if got := p.month(replicate.Requests{}); got != 0 {
			t.Errorf("%s: nothing costs %.2f", p.provider, got)
		}
	}
	if len(providers()) != len(want) {
		t.Errorf("%d providers", len(providers()))
	}
}

func TestPace(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	counted := client.Requests{Put: 720, SinceMS: now.Add(-time.Hour).UnixMilli()}
	if got := paceOf(counted, now); got == nil || got.Requests.Put != 720*720 {
		t.Errorf("got %+v, want %d puts a month", got, 720*720)
	}
	counted.SinceMS = now.Add(-10 * time.Second).UnixMilli()
	if got := paceOf(counted, now); got != nil {
		t.Errorf("ten seconds say nothing: got %+v", got)
	}
}

func TestClock(t *testing.T) {
	for skew, ok := range map[time.Duration]bool{0: true, -30 * time.Second: true, 2 * time.Minute: false, -2 * time.Minute: false} {
		if got := clockOf(skew); got.OK != ok || got.OK != (got.Fix == "") {
			t.Errorf("%s: got %+v", skew, got)
		}
	}
}
