"""What objects show of themselves in a notebook: tables in HTML, lines on Matplotlib axes and in Plotly figures."""
