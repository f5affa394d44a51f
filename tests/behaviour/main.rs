mod telemetry;
