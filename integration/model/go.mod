module github.com/fencing-agent/fencing-agent/integration/model

go 1.26.0
