"""Pictures of a diagnosis as Plotly figures; notebooks and reports show the same ones."""
